"""The status of Module CRs on simulated clusters: what is written when, and what is left to others."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import Controller, Manager, ObjectKey, Resource, Result, load_yaml
from kube_simulation import ApiRequest, Record, Refuse, Refused, Simulation, serve_simulation
from lifecycle_manager.module_cr_status import ModuleCrStatusSettings, setup
from lifecycle_manager.module_cr_status.apply import ModuleCrState
from lifecycle_manager.module_cr_status.schema import KEPT_SECONDS
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.signals import ClusterReplaced
from lifecycle_manager.skr import Connections
from lifecycle_manager_api import names
from tests.clocks import ManualClock
from tests.manifest_world import Clusters, simulated_client, simulated_control_plane

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
NAME = "demo-cloud-resources"
GROUP = "cloud-resources.kyma-project.io"
INFRASTRUCTURES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, "v1beta1", "Infrastructure", "infrastructures", namespaced=True
)
SAMPLE = load_yaml(files("kyma_module_manager.samples.cloud_resources").joinpath("crd.yaml").read_text())
OBJECT = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one", "state": "Ready"}
TOO_WIDE = ("NetworkTooWide", "VPC peering all is with the whole internet")


def crd(status: Mapping[str, Any] | None = None, *, subresource: bool = True) -> dict[str, Any]:
    """Return the CRD of the sample, with other properties of the status if given."""
    document = cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(SAMPLE)))
    version = document["spec"]["versions"][0]
    version["additionalPrinterColumns"] = []
    if status is not None:
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object", "properties": dict(status)}
    if not subresource:
        del version["subresources"]
    return document


@dataclass(eq=False)
class World(Clusters):
    """The controller on a Manager; the other parts of the product are the test's."""

    clock: ManualClock = field(default_factory=ManualClock)
    controller: Controller[ObjectKey, ModuleCrState] = field(init=False)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        """Run the informers of a process that knows nothing."""
        self.manager = Manager(self.kcp, namespace=KCP, events=self.events, clock=self.clock)
        self.controller = setup(self.manager, cast("Connections", self), ModuleCrStatusSettings())
        async with self.manager.background():
            await self.manager.wait_synced()
            yield

    async def install(self, document: dict[str, Any]) -> None:
        await self.skr.apply(
            CUSTOM_RESOURCE_DEFINITIONS, document["metadata"]["name"], document, field_manager="module"
        )

    async def edit(self, cidr: str, name: str = "default", config: str = NAME) -> None:
        """Write a Module CR as a user, and its ModuleConfig as it is read."""
        peering = {"name": "all", "remoteNetwork": cidr}
        document = {"metadata": {"name": name}, "spec": {"vpcPeerings": [peering]}}
        written = await self.skr.apply(INFRASTRUCTURES, name, document, SKR, field_manager="user")
        metadata = written["metadata"]
        reference = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Infrastructure", "namespace": SKR, "name": name}
        reference |= {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        spec = {"kyma": "demo", "module": "cloud-resources", "resource": cidr}
        document = {
            "metadata": {"name": config},
            "spec": spec | {"resourceRef": reference | {"generation": metadata["generation"]}},
        }
        await self.kcp.apply(MODULE_CONFIGS, config, document, KCP, field_manager="lifecycle-manager")

    async def render(self, text: str = "", config: str = NAME) -> None:
        """Write the SyncResource, as the Module Manager does."""
        generation = (await self.kcp.get(MODULE_CONFIGS, config, KCP)).metadata.generation
        document = {
            "metadata": {"name": config, "annotations": {names.MODULE_CONFIG_GENERATION: str(generation)}},
            "spec": {"kyma": "demo", "module": "cloud-resources", "resource": text or f"of {generation}"},
        }
        await self.kcp.apply(SYNC_RESOURCES, config, document, KCP, field_manager="manager")

    async def applied(
        self, state: str = "Ready", reason: str = "ObjectsReady", message: str = "", config: str = NAME
    ) -> None:
        """Write the status of the SyncResource, as after its apply."""
        generation = (await self.kcp.get(SYNC_RESOURCES, config, KCP)).metadata.generation
        ready = condition("True" if state == "Ready" else "False", reason, message)
        status = {"state": state, "observedGeneration": generation, "synced": [OBJECT], "conditions": [ready]}
        await self.kcp.apply(SYNC_RESOURCES, config, {"status": status}, KCP, field_manager="lm", subresource="status")

    async def report(self, config: str = NAME, **status: Any) -> None:
        """Write the status of the ModuleConfig, as the Module Manager does."""
        generation = (await self.kcp.get(MODULE_CONFIGS, config, KCP)).metadata.generation
        given = {"state": "Ready", "observedGeneration": generation} | status
        await self.kcp.apply(MODULE_CONFIGS, config, {"status": given}, KCP, field_manager="m", subresource="status")

    async def refuse(self, reason: str, message: str, config: str = NAME) -> None:
        """Refuse the Module CR, as the Module Manager does."""
        generation = (await self.kcp.get(MODULE_CONFIGS, config, KCP)).metadata.generation
        refused = condition("False", reason, message) | {"type": "Rendered", "observedGeneration": generation}
        await self.report(config, state="Error", conditions=[refused])

    async def reconcile(self, *causes: Any, config: str = NAME) -> Result:
        await self.see(MODULE_CONFIGS, None)
        await self.see(SYNC_RESOURCES, None)
        return await self.controller.reconcile_now(ObjectKey(KCP, config), *causes)

    async def in_force(self, cidr: str) -> None:
        """Edit, and let all others do their part."""
        await self.edit(cidr)
        await self.render()
        await self.applied()
        await self.reconcile()

    async def module_cr(self, name: str = "default") -> dict[str, Any]:
        return await self.skr.get(INFRASTRUCTURES, name, SKR)

    async def status(self, name: str = "default") -> dict[str, Any]:
        return (await self.module_cr(name)).get("status") or {}

    async def operator_writes(self, status: dict[str, Any]) -> None:
        """Write the status as an operator in the SKR does, which asks nobody."""
        await self.skr.merge_patch(
            INFRASTRUCTURES, "default", {"status": status}, SKR, subresource="status", field_manager="operator"
        )


def condition(status: str, reason: str, message: str = "") -> dict[str, Any]:
    time = "2026-11-01T12:00:00Z"
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def ready_of(status: dict[str, Any]) -> tuple[str, str, str, int]:
    (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
    return ready["status"], ready["reason"], ready["message"], ready["observedGeneration"]


def is_status_write(request: ApiRequest | Record) -> bool:
    return request.cluster == "skr" and request.subresource == "status" and request.is_write


@pytest.fixture
async def simulation() -> AsyncIterator[Simulation]:
    async with serve_simulation() as served:
        yield served


@pytest.fixture
async def bare(simulation: Simulation) -> AsyncIterator[World]:
    """A world whose SKR has no CRD yet."""
    async with await simulated_control_plane(simulation) as kcp, await simulated_client(simulation, "skr") as skr:
        world = World(kcp, skr)
        async with world.process():
            yield world


@pytest.fixture
async def world(bare: World) -> World:
    await bare.install(crd())
    return bare


async def test_change_in_force_is_one_write(world: World, simulation: Simulation) -> None:
    await world.edit("10.0.0.0/8")
    result = await world.reconcile()
    assert result.requeue_after == 1.0
    await world.render()
    await world.reconcile()
    await world.applied()
    await world.reconcile()
    status = await world.status()
    assert (status["state"], status["observedGeneration"]) == ("Ready", 1)
    assert ready_of(status) == ("True", "Applied", "1 object is applied and ready", 1)
    await world.report()
    await world.reconcile()
    assert len(simulation.requests(is_status_write)) == 1
    assert world.events.in_skr == [("Applied", "1 object is applied and ready")]


async def test_change_that_takes_longer_is_processing_first(world: World, simulation: Simulation) -> None:
    await world.in_force("10.0.0.0/8")
    await world.edit("10.1.0.0/16")
    await world.reconcile()
    world.clock.advance(1.1)
    result = await world.reconcile()
    status = await world.status()
    assert (status["state"], status["observedGeneration"]) == ("Processing", 2)
    assert ready_of(status) == ("False", "WaitingForModuleManager", "waits for the module manager", 2)
    assert result.requeue_after is None
    await world.render()
    await world.reconcile()  # what it waits for is told again only after a while
    await world.applied()
    await world.reconcile()
    assert ((await world.status())["state"], len(simulation.requests(is_status_write))) == ("Ready", 3)
    assert [reason for reason, _ in world.events.in_skr] == ["Applied", "Waiting", "Applied"]


async def test_mistake_is_told_at_once_and_its_correction_too(world: World) -> None:
    await world.in_force("10.0.0.0/8")
    await world.edit("0.0.0.0/0")
    await world.refuse(*TOO_WIDE)
    await world.reconcile()
    status = await world.status()
    assert (status["state"], ready_of(status)) == ("Error", ("False", *TOO_WIDE, 2))
    await world.in_force("10.2.0.0/16")
    status = await world.status()
    assert (status["state"], status["observedGeneration"], ready_of(status)[0]) == ("Ready", 3, "True")
    assert ("Refused", f"{TOO_WIDE[1]} ({TOO_WIDE[0]})") in world.events.in_skr


async def test_time_of_the_transition_stays_while_the_status_does(world: World) -> None:
    await world.in_force("10.0.0.0/8")
    before = (await world.status())["conditions"]
    world.clock.advance(60)
    await world.in_force("10.1.0.0/16")
    after = (await world.status())["conditions"]
    assert after[0]["lastTransitionTime"] == before[0]["lastTransitionTime"]
    assert after[0]["observedGeneration"] == 2


async def test_restart_writes_and_says_nothing(world: World, simulation: Simulation) -> None:
    await world.in_force("10.0.0.0/8")
    writes, events = len(simulation.requests(is_status_write)), list(world.events.in_skr)
    async with world.process():
        world.clock.advance(60)
        await world.reconcile()
        assert (len(simulation.requests(is_status_write)), world.events.in_skr) == (writes, events)
        await world.in_force("10.1.0.0/16")
        assert (await world.status())["observedGeneration"] == 2


async def test_replaced_cluster_gets_the_status_again(world: World) -> None:
    await world.in_force("10.0.0.0/8")
    await world.operator_writes({"state": None, "conditions": None, "observedGeneration": None})
    await world.reconcile(ClusterReplaced("demo"))
    assert (await world.status())["state"] == "Ready"


async def test_fields_of_an_operator_stay(world: World) -> None:
    await world.install(crd({**status_properties(), "phase": {"type": "string"}}))
    await world.edit("10.0.0.0/8")
    await world.operator_writes({"phase": "Bound"})
    await world.in_force("10.0.0.0/8")
    status = await world.status()
    assert (status["phase"], status["state"]) == ("Bound", "Ready")


async def test_status_that_an_operator_writes_is_left_alone(world: World, simulation: Simulation) -> None:
    await world.edit("10.0.0.0/8")
    await world.operator_writes({"state": "Warning"})
    await world.in_force("10.0.0.0/8")
    assert await world.status() == {"state": "Warning"}
    writes = len(simulation.requests(is_status_write))
    await world.in_force("10.1.0.0/16")
    assert len(simulation.requests(is_status_write)) == writes


async def test_operator_that_begins_to_write_takes_the_status_over(world: World) -> None:
    """What is left of ours would be stale for ever."""
    await world.in_force("10.0.0.0/8")
    await world.operator_writes({"state": "Warning"})
    await world.in_force("10.1.0.0/16")
    assert await world.status() == {"state": "Warning"}


async def test_object_created_again_never_gets_the_status_of_its_predecessor(world: World) -> None:
    await world.in_force("10.0.0.0/8")
    await world.skr.delete(INFRASTRUCTURES, "default", SKR)
    await world.skr.apply(
        INFRASTRUCTURES, "default", {"metadata": {"name": "default"}, "spec": {}}, SKR, field_manager="user"
    )
    await world.refuse(*TOO_WIDE)
    await world.reconcile()
    assert await world.status() == {}
    await world.in_force("10.1.0.0/16")
    assert (await world.status())["state"] == "Ready"


async def test_deleted_module_cr_is_no_failure(world: World) -> None:
    await world.in_force("10.0.0.0/8")
    await world.skr.delete(INFRASTRUCTURES, "default", SKR)
    await world.refuse(*TOO_WIDE)
    assert (await world.reconcile()) == Result()


def status_properties() -> dict[str, Any]:
    version = SAMPLE["spec"]["versions"][0]
    return dict(version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"])


@pytest.mark.parametrize("known", ["state", "observedGeneration", "conditions"])
async def test_only_the_fields_that_the_kind_has_are_written(bare: World, known: str) -> None:
    await bare.install(crd({known: status_properties()[known]}))
    await bare.in_force("10.0.0.0/8")
    assert set(await bare.status()) == {known}


async def test_state_that_the_kind_does_not_have_becomes_the_nearest_one(bare: World) -> None:
    await bare.install(crd({"state": {"type": "string", "enum": ["Ready", "Error"]}}))
    await bare.edit("10.0.0.0/8")
    await bare.report(conditions=[condition("False", "AccessSecretMissing") | {"type": "Synced"}])
    await bare.reconcile()
    assert await bare.status() == {"state": "Error"}


@pytest.mark.parametrize("document", [crd({}), crd(subresource=False)], ids=["no fields", "no subresource"])
async def test_kind_without_status_gets_events(bare: World, document: dict[str, Any], simulation: Simulation) -> None:
    await bare.install(document)
    await bare.edit("0.0.0.0/0")
    await bare.reconcile()
    await bare.refuse(*TOO_WIDE)
    await bare.reconcile()
    await bare.reconcile()
    said = ("Refused", f"{TOO_WIDE[1]} ({TOO_WIDE[0]})")
    assert bare.events.in_skr == [said]
    async with bare.process():
        await bare.reconcile()
        assert bare.events.in_skr == [said]
    assert not simulation.requests(is_status_write)


async def test_crd_that_gets_a_status_is_found_later(bare: World) -> None:
    await bare.install(crd({}))
    await bare.in_force("10.0.0.0/8")
    await bare.install(crd())
    bare.clock.advance(KEPT_SECONDS + 1)
    await bare.in_force("10.1.0.0/16")
    assert (await bare.status())["observedGeneration"] == 2


async def test_crd_is_read_once_for_a_kind(world: World, simulation: Simulation) -> None:
    for number in range(5):
        await world.edit("10.0.0.0/8", f"cr-{number}", f"config-{number}")
        await world.reconcile(config=f"config-{number}")
    reads = simulation.requests(lambda it: it.cluster == "skr" and it.verb == "get" and "definitions" in it.path)
    assert len(reads) == 1


async def test_fields_of_the_module_manager_are_written_and_removed(world: World) -> None:
    await world.install(crd({**status_properties(), "gateway": {"type": "string"}}))
    await world.edit("10.0.0.0/8")
    await world.render()
    await world.applied()
    await world.report(moduleStatus={"gateway": "10.0.0.1", "state": "Error", "unknown": 1})
    await world.reconcile()
    status = await world.status()
    assert (status["gateway"], status["state"], "unknown" in status) == ("10.0.0.1", "Ready", False)
    await world.report()
    await world.reconcile()
    assert "gateway" not in await world.status()


async def test_fields_of_the_module_manager_that_do_not_fit_are_left_out(world: World, simulation: Simulation) -> None:
    await world.install(crd({**status_properties(), "gateway": {"type": "string", "maxLength": 3}}))
    await world.edit("10.0.0.0/8")
    await world.render()
    await world.applied()
    await world.report(moduleStatus={"gateway": "10.0.0.1"})
    await world.reconcile()
    assert "gateway" not in await world.status()
    assert (await world.status())["state"] == "Ready"
    assert [reason for reason, _ in world.events.in_kcp] == ["ModuleStatusRefused"]
    writes = len(simulation.requests(is_status_write))
    await world.reconcile()
    assert len(simulation.requests(is_status_write)) == writes


async def test_missing_right_is_reported_once_and_not_retried(world: World, simulation: Simulation) -> None:
    refused = Refused(403, "Forbidden", "infrastructures/status is forbidden")
    simulation.cluster("skr").add_rule(rule := Refuse(is_status_write, refused=refused))
    await world.in_force("10.0.0.0/8")
    await world.reconcile()
    await world.reconcile()
    assert [reason for reason, _ in world.events.in_kcp] == ["ModuleCRStatusNotWritten"]
    assert len(simulation.requests(is_status_write)) == 1
    simulation.cluster("skr").remove_rule(rule)
    await world.in_force("10.1.0.0/16")
    assert (await world.status())["state"] == "Ready"


async def test_crd_that_may_not_be_read_is_tried(world: World, simulation: Simulation) -> None:
    refused = Refused(403, "Forbidden", "customresourcedefinitions is forbidden")
    simulation.cluster("skr").add_rule(Refuse(lambda it: "definitions" in it.path, refused=refused))
    await world.in_force("10.0.0.0/8")
    assert (await world.status())["state"] == "Ready"
