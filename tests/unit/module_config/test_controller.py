"""ModuleConfigs follow the Module CRs of a simulated SKR: what is read, what is written, and what triggers it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kube_runtime import KubeError, NotFound, NotServed, Resource, Result
from kube_simulation import ApiRequest, Freeze, Refuse
from lifecycle_manager import module_config
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_CONFIGS, MODULE_POLICIES
from lifecycle_manager.contract.signals import (
    ObjectChanged,
    ObjectReference,
    ReadScope,
    ResyncRequested,
    Trace,
)
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_config import ModuleConfigSettings, ModuleKey
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.announcement import MAX_OBJECTS
from lifecycle_manager_api import ModuleConfig, find, names
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, NAMESPACE, NO_API, SKR, World, open_world

GROUP, MODULE = "cloud-resources.kyma-project.io", "cloud-resources"
KEY = ModuleKey(KCP, "demo", MODULE)
NAME = "demo-cloud-resources"
INTERVAL = 30.0
INFRASTRUCTURES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, "v1beta1", "Infrastructure", "infrastructures", namespaced=True
)
CRD = {
    "metadata": {"name": f"infrastructures.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Infrastructure", "listKind": "InfrastructureList", "plural": "infrastructures"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


@dataclass
class Module:
    """A world with the domain, and a Kyma whose module has a configuration."""

    world: World

    async def reconcile(self, *causes: object) -> Result:
        return await self.world.turn("module-config", KEY, *causes)

    async def write(self, value: str, name: str = "default") -> dict[str, Any]:
        document = {"metadata": {"name": name}, "spec": {"value": value}}
        skr = await self.world.skr()
        return await skr.apply(INFRASTRUCTURES, name, document, SKR, field_manager="user")

    async def delete(self, name: str = "default") -> None:
        await (await self.world.skr()).delete(INFRASTRUCTURES, name, SKR)

    async def config(self, name: str = NAME) -> ModuleConfig | None:
        try:
            return await self.world.kcp.get(MODULE_CONFIGS, name, KCP)
        except (NotFound, NotServed):
            return None

    async def text(self) -> str:
        config = await self.config()
        return config.spec.resource if config is not None else ""

    async def number_of_configs(self) -> int:
        return len((await self.world.kcp.list(MODULE_CONFIGS, KCP)).items)

    def has(self, value: str) -> Callable[[], Any]:
        async def condition() -> bool:
            return value in await self.text()

        return condition

    def requests(self, since: int) -> list[str]:
        found = self.world.cluster("demo").requests(since=since)
        return [record.verb for record in found if record.resource.startswith("infrastructures")]


@asynccontextmanager
async def module(
    *,
    introduced: bool = True,
    installs: bool = True,
    is_named: bool = True,
    data: dict[str, Any] | None = builders.INFRASTRUCTURE_DATA,
) -> AsyncIterator[Module]:
    """Open a world with the domain and a Kyma that has the module, with or without a Manifest.

    `is_named`: the ModulePolicy names the kind of its Module CRs.
    """

    async def fetch(_: str) -> str:
        raise AssertionError("the template has a default Module CR")

    async with open_world() as world:
        module_config.setup(
            world.manager,
            world.connections,
            kinds=ModuleKinds(fetch),
            latency=ChangeLatency(CollectorRegistry(), world.clock),
            settings=ModuleConfigSettings(interval_seconds=INTERVAL),
        )
        await world.register("demo", MODULE)
        await world.offer(builders.template(installs=installs, data=data), builders.release(regular="0.1.0"))
        await (await world.skr()).create(CUSTOM_RESOURCE_DEFINITIONS, CRD, field_manager="module")
        policy = {"moduleCrKinds": [{"group": GROUP, "kind": "Infrastructure"}]} if is_named else {}
        await world.kcp.create(
            MODULE_POLICIES, {"metadata": {"name": MODULE}, "spec": policy}, KCP, field_manager="operator"
        )
        if introduced:
            await world.introduced()
        else:
            world.cluster("demo").create({**NAMESPACE, "metadata": {"name": SKR}})
        yield Module(world)


def changed(
    name: str = "default", operation: str = "UPDATE", *, version: str = "", event_id: str = ""
) -> ObjectChanged:
    reference = ObjectReference(GROUP, "Infrastructure", SKR, name)
    return ObjectChanged("demo", reference, operation, "", version, Trace(event_id, f"trace-{event_id}"))


def is_watch_of_configs(request: ApiRequest) -> bool:
    return request.verb == "watch" and "moduleconfigs" in request.path


@asynccontextmanager
async def delayed_watch(it: Module) -> AsyncIterator[None]:
    """Within the block the informer sees no change of ModuleConfigs."""
    await it.world.sync_caches()
    kcp = it.world.cluster("kcp")
    it.world.unseen.add("moduleconfigs")
    with kcp.ruled_by(Freeze(kcp.version, is_watch_of_configs)):
        yield
    it.world.unseen.clear()


async def test_of_an_announced_change_only_the_object_is_read() -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        version = (await it.write("two"))["metadata"]["resourceVersion"]
        before = it.world.requests
        await it.reconcile(changed(version="older"))
        assert it.requests(before) == ["get"]
        assert "two" in await it.text()
        assert version


async def test_all_module_crs_are_read_when_told_so() -> None:
    async with module() as it:
        await it.reconcile()
        await it.write("other", name="other")
        before = it.world.requests
        await it.reconcile(changed(), ReadScope.EVERYTHING)
        assert it.requests(before) == ["list"]
        assert len((await it.world.kcp.list(MODULE_CONFIGS, KCP)).items) == 1


async def test_without_a_cause_nothing_is_read_before_the_interval_has_passed() -> None:
    async with module() as it:
        await it.reconcile()
        before = it.world.requests
        it.world.clock.advance(INTERVAL / 2)
        assert (await it.reconcile()).requeue_after == INTERVAL / 2
        assert it.requests(before) == []


async def test_only_module_configs_that_others_made_or_deleted_are_compared() -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        before = it.world.requests
        await it.reconcile(ReadScope.DIFFERING)
        assert it.requests(before) == [], "it was written here"
        await it.world.kcp.delete(MODULE_CONFIGS, NAME, KCP)
        await it.reconcile(ReadScope.DIFFERING)
        assert it.requests(before) == ["get"]
        assert "one" in await it.text()
        config = await it.config()
        assert config is not None
        assert config.spec.resource_ref is not None
        reference = msgspec.structs.replace(config.spec.resource_ref, name="other", uid="made-up")
        spec = msgspec.structs.replace(config.spec, resource_ref=reference)
        metadata = msgspec.structs.replace(config.metadata, name=f"{NAME}-made-up", resource_version="", uid="")
        await it.world.kcp.create(
            MODULE_CONFIGS, ModuleConfig(metadata=metadata, spec=spec), KCP, field_manager="other"
        )
        await it.reconcile(ReadScope.DIFFERING)
        assert it.requests(before) == ["get", "list"]
        assert [each.metadata.name for each in (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items] == [NAME]


async def test_module_cr_that_waits_for_room_in_the_quota_gets_it_when_another_goes() -> None:
    async with module() as it:
        for number in range(201):
            await it.write("1", name=f"n-{number:03}")
        await it.reconcile()
        assert await it.number_of_configs() == 200
        await it.delete("n-000")
        await it.reconcile(changed("n-000", "DELETE", version="older"))
        await it.reconcile(ReadScope.DIFFERING)
        assert await it.number_of_configs() == 200


async def test_all_module_crs_are_read_once_in_an_interval_whatever_is_announced() -> None:
    async with module() as it:
        await it.reconcile()
        it.world.clock.advance(INTERVAL)
        before = it.world.requests
        await it.reconcile(changed())
        assert it.requests(before) == ["list"]


async def test_too_many_announcements_read_all_module_crs() -> None:
    async with module() as it:
        await it.reconcile()
        before = it.world.requests
        await it.reconcile(*(changed(f"object-{number}") for number in range(MAX_OBJECTS)))
        assert "list" not in it.requests(before)
        before = it.world.requests
        await it.reconcile(*(changed(f"more-{number}", "CREATE") for number in range(MAX_OBJECTS)), changed())
        assert it.requests(before) == ["list"]


async def test_event_that_precedes_its_write_is_not_lost() -> None:
    async with module() as it:
        version = (await it.write("one"))["metadata"]["resourceVersion"]
        await it.reconcile()
        again = (await it.reconcile(changed(version=version))).requeue_after
        assert again is not None
        assert again < 1
        await it.write("two")
        before = it.world.requests
        await it.reconcile()
        assert it.requests(before) == ["get"]
        assert "two" in await it.text()


async def test_change_announced_during_the_read_gives_the_write_its_trace() -> None:
    async with module() as it:
        await it.write("one")
        it.world.manager.controllers["module-config"].enqueue(KEY, changed(event_id="late"))
        await it.reconcile()
        config = await it.config()
        assert config is not None
        assert config.metadata.annotations[names.TRACEPARENT] == "trace-late"


async def test_config_says_that_users_have_deleted_its_module_cr() -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile(ReadScope.EVERYTHING)
        held = {"metadata": {"finalizers": ["example.com/objects"]}}
        await it.world.kcp.merge_patch(MODULE_CONFIGS, NAME, held, KCP)
        await it.delete()
        await it.reconcile(ReadScope.EVERYTHING)
        config = await it.config()
        assert config is not None
        assert config.metadata.being_deleted
        assert names.REMOVED_BY_USERS in config.metadata.annotations


async def test_config_that_the_cache_does_not_have_yet_is_not_written_twice() -> None:
    async with module() as it, delayed_watch(it):
        await it.write("one")
        await it.reconcile()
        before = it.world.requests
        await it.reconcile(ReadScope.EVERYTHING)
        assert it.world.writes_to("kcp", before) == []


async def test_config_that_the_cache_does_not_have_yet_is_deleted_with_its_module_cr() -> None:
    """The deletion was not announced: only the complete reading shows it."""
    async with module() as it, delayed_watch(it):
        await it.write("one", name="other")
        await it.reconcile()
        assert len((await it.world.kcp.list(MODULE_CONFIGS, KCP)).items) == 1
        await it.delete("other")
        await it.reconcile(ReadScope.EVERYTHING)
        assert (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items == ()


async def test_config_missing_in_the_cache_is_marked_when_the_cluster_can_not_be_read() -> None:
    async with module() as it, delayed_watch(it):
        await it.write("one")
        await it.reconcile()
        with it.world.cluster("demo").ruled_by(Refuse(refused=NO_API)), pytest.raises(KubeError):
            await it.reconcile(ReadScope.EVERYTHING)
        config = await it.config()
        assert config is not None
        synced = find(config.status.conditions, "Synced")
        assert synced is not None
        assert (synced.status, synced.reason) == ("False", "SKRForbidden")


async def test_newer_text_missing_in_the_cache_is_not_overwritten_by_an_older_read() -> None:
    async with module() as it:
        await it.write("zero")
        await it.reconcile()
        async with delayed_watch(it):
            skr = it.world.cluster("demo")
            await it.write("half")
            before = skr.version
            await it.write("one")
            await it.reconcile(changed(version="older"))
            with skr.ruled_by(Freeze(before, lambda request: "infrastructures" in request.path)):
                await it.reconcile(changed(version="older"))
            assert "one" in await it.text()


async def test_failed_read_keeps_what_was_announced() -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        await it.write("two")
        with it.world.cluster("demo").ruled_by(Refuse(refused=NO_API)), pytest.raises(KubeError):
            await it.reconcile(changed(version="older"))
        before = it.world.requests
        await it.reconcile()
        assert it.requests(before) == ["get"]
        assert "two" in await it.text()


async def test_module_config_of_another_kyma_with_this_name_is_left_alone() -> None:
    async with module() as it:
        foreign = {"metadata": {"name": NAME, "namespace": KCP}, "spec": {"kyma": "demo-cloud", "module": "resources"}}
        before = await it.world.kcp.apply(MODULE_CONFIGS, NAME, foreign, KCP, field_manager="test")
        for change, values in ((it.write("one"), ["one"]), (it.write("two"), ["two"]), (it.delete(), [])):
            await change
            await it.reconcile(changed(operation="UPDATE" if values else "DELETE", version="older"))
            configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
            assert next(each for each in configs if each.metadata.name == NAME) == before
            texts = [each.spec.resource for each in configs if each.spec.kyma == "demo"]
            assert len(texts) == len(values)
            assert all(value in text for value, text in zip(values, texts, strict=True))
        assert {each.metadata.name for each in (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items} == {NAME}


async def test_changes_reach_kcp_by_events_and_deleted_configs_are_written_again() -> None:
    async with module(introduced=False) as it, it.world.running():
        await it.write("one")
        await eventually(it.has("one"))
        await it.write("two")
        assert it.world.manager.publish(changed(version="older")) >= 1
        await eventually(it.has("two"))
        await it.world.kcp.delete(MODULE_CONFIGS, NAME, KCP)
        await eventually(it.has("two"))
        await it.write("three")
        it.world.manager.publish(ResyncRequested("demo"))
        await eventually(it.has("three"))
        assert it.world.manager.publish(ObjectChanged("demo", ObjectReference("", "Pod", SKR, "x"), "UPDATE")) <= 1
