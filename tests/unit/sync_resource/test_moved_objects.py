"""What Manifests and SyncResources have one after the other, and kinds whose CRD is refused."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kube_runtime import KubeError, NotFound, ObjectKey
from kube_simulation import ApiRequest, Refuse, Rule, Simulation
from kube_simulation.refusals import Refused
from kube_simulation.requests import Answer
from kube_simulation.rules import Proceed
from lifecycle_manager.contract.resources import MANIFESTS, MODULE_CONFIGS, MODULE_POLICIES, SYNC_RESOURCES
from lifecycle_manager_api import find, names
from tests.integration.kube_runtime.things import THINGS, as_text, definition, thing
from tests.kinds import CONFIG_MAPS, CRDS, NAMESPACES
from tests.manifest_clusters import Modules
from tests.modules import config_map
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing
from tests.unit.sync_resource.test_objects_of_modules import data_of, remove
from tests.waiting import is_gone


async def uid_of(syncing: Syncing) -> str:
    return str((await syncing.skr.get(CONFIG_MAPS, "shared", SKR))["metadata"]["uid"])


@pytest.mark.parametrize("how", ["refused before", "at once", "removed"])
async def test_object_that_moves_to_another_sync_resource_is_not_deleted(world: Syncing, how: str) -> None:
    await world.write("m", "shared", "rest")
    await world.reconcile("m")
    before = await uid_of(world)
    await world.write("n", "shared")
    if how != "at once":
        await world.reconcile("n")
        assert await world.reason("n") == "Conflict"
    if how == "removed":
        await world.kcp.delete(SYNC_RESOURCES, "m", KCP)
    else:
        await world.write("m", "rest")
    for name in "mn":
        await world.reconcile(name)
    assert (await uid_of(world), await world.reason("n")) == (before, "ObjectsReady")
    await world.write("n", "other")
    await world.reconcile("n")
    assert await world.objects() == ({"other"} if how == "removed" else {"rest", "other"})


async def test_object_goes_with_the_sync_resource_that_it_was_handed_over_to(world: Syncing) -> None:
    await world.write("m", "shared")
    await world.reconcile("m")
    await world.write("n", "shared")
    await world.write("m", "rest")
    await world.reconcile("m")
    await world.kcp.delete(SYNC_RESOURCES, "n", KCP)  # before it was reconciled
    await world.reconcile("n")
    assert await world.objects() == {"rest"}


async def test_object_stays_and_a_status_says_why_where_it_can_not_be_handed_over(
    world: Syncing, simulation: Simulation
) -> None:
    await world.write("m", "shared")
    await world.reconcile("m")
    await world.write("n", "shared")
    await world.write("m", "rest")
    full = Refuse(lambda request: request.name == "n", refused=Refused(413, "RequestEntityTooLarge", "too large"))
    with simulation.cluster("kcp").ruled_by(full), pytest.raises(KubeError):
        await world.reconcile("m")
    ready = find((await world.kcp.get(SYNC_RESOURCES, "m", KCP)).status.conditions, "Ready")
    assert ready is not None
    assert "SyncResource n can't take over objects" in ready.message
    assert await world.objects() == {"shared", "rest"}
    await world.reconcile("m")
    assert await world.reason("m") == "ObjectsReady"


async def test_object_that_moves_from_a_manifest_to_a_sync_resource_is_not_deleted(
    both: tuple[Modules, Syncing],
) -> None:
    modules, syncing = both
    key = ObjectKey(KCP, "demo-cloud-resources")
    await modules.want([config_map("rest"), config_map("shared", module="1")], key)
    await modules.reconcile(key)
    before = await uid_of(syncing)
    await syncing.write("m", resource=as_text(config_map("shared", other="2")))
    await modules.want([config_map("rest")], key)
    await modules.see(SYNC_RESOURCES, None)
    await modules.reconcile(key)
    await syncing.see(MANIFESTS)
    await syncing.reconcile("m")
    assert (await uid_of(syncing), await data_of(syncing)) == (before, {"other": "2"})


class NamesTaken(Rule):
    """The names of a CRD are those of another one: so it says in every answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.applied: list[str] = []

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if request.verb == "apply":
            self.applied.append(request.name)
        if request.name != self.name or request.verb not in {"apply", "get"}:
            return answer
        refused = {"type": "NamesAccepted", "status": "False", "reason": "KindConflict", "message": "in use"}
        return replace(answer, body=msgspec.json.encode({**answer.document(), "status": {"conditions": [refused]}}))


async def test_crd_whose_names_are_refused_stays_refused_at_the_next_attempt(
    world: Syncing, simulation: Simulation
) -> None:
    await world.skr.create(CRDS, definition("others"), field_manager="user")  # of the same kind
    crd, rule = definition(), NamesTaken(definition()["metadata"]["name"])
    await world.write("m", resource=f"{as_text(crd)}\n---\n{as_text(thing('mine', SKR))}")
    with simulation.cluster("skr").ruled_by(rule):
        for _ in range(3):
            with suppress(KubeError):
                await world.reconcile("m")
            ready = find((await world.kcp.get(SYNC_RESOURCES, "m", KCP)).status.conditions, "Ready")
            assert ready is not None
            assert "are taken already" in ready.message
            assert "mine" not in rule.applied


class WhileItIsRefused(Rule):
    """Refuses an object, after something else was done."""

    def __init__(self, name: str, meanwhile: Any) -> None:
        self.name, self.meanwhile = name, meanwhile

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if (request.verb, request.name) == ("apply", self.name):
            await self.meanwhile()
            raise Refused(403, "Forbidden", "a policy of the cluster denied the request")
        return await proceed()


async def test_object_that_moves_to_a_module_which_is_refused_is_not_orphaned(
    both: tuple[Modules, Syncing], simulation: Simulation
) -> None:
    modules, syncing = both
    await syncing.write("m", resource=as_text(config_map("shared", other="2")))
    await syncing.reconcile("m")

    async def dropped() -> None:
        await syncing.write("m", resource=as_text(config_map("stays")))
        await syncing.see(MANIFESTS)
        await syncing.reconcile("m")

    await modules.want([config_map("rest"), config_map("shared", module="1")])
    with simulation.cluster("skr").ruled_by(WhileItIsRefused("shared", dropped)), pytest.raises(KubeError):
        await modules.reconcile()
    await modules.want([config_map("rest")])  # the version is taken back
    await modules.reconcile()
    await syncing.reconcile("m")
    await remove(syncing)
    await modules.delete()
    await modules.reconcile_until_gone()
    assert await is_gone(syncing.skr.get(CONFIG_MAPS, "shared", SKR))


async def test_object_of_users_that_moves_from_a_sync_resource_to_the_module_stays_theirs(
    both: tuple[Modules, Syncing],
) -> None:
    modules, syncing = both
    await syncing.skr.create(CONFIG_MAPS, config_map("shared", mine="1"), SKR, field_manager="user")
    await syncing.write("m", resource=as_text(config_map("shared", theirs="2")))
    await syncing.reconcile("m")
    assert [each.name for each in (await syncing.kcp.get(SYNC_RESOURCES, "m", KCP)).status.found] == ["shared"]
    await modules.want([config_map("shared", theirs="2")])
    await modules.see(SYNC_RESOURCES, None)
    await modules.reconcile()
    await syncing.reconcile("m")
    await remove(syncing)
    await modules.delete()
    await modules.reconcile_until_gone()
    assert not await is_gone(syncing.skr.get(CONFIG_MAPS, "shared", SKR))


async def test_namespace_of_a_module_waits_for_the_sync_resource_that_is_removed_with_it(
    both: tuple[Modules, Syncing],
) -> None:
    modules, syncing = both
    await modules.want([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}])
    await modules.reconcile()
    there = config_map("there")
    there["metadata"]["namespace"] = "shop"
    await syncing.write("m", resource=as_text(there))
    await syncing.reconcile("m")
    await modules.delete()
    await syncing.kcp.delete(SYNC_RESOURCES, "m", KCP)
    await modules.see(SYNC_RESOURCES, None)
    await modules.reconcile()
    await syncing.reconcile("m")
    await modules.reconcile()
    try:
        namespace = await syncing.skr.get(NAMESPACES, "shop")
    except NotFound:
        return
    assert namespace["metadata"].get("deletionTimestamp")


async def test_namespace_is_created_beside_an_object_whose_kind_is_called_so(world: Syncing) -> None:
    ours = definition("namespaces", "Namespace")
    other = {**thing("shop", kind="Namespace"), "metadata": {"name": "shop", "namespace": SKR}}
    there = {**config_map("there"), "metadata": {"name": "there", "namespace": "shop"}}
    text = "\n---\n".join(map(as_text, (ours, other, there)))
    await world.write("m", resource=text, annotations={names.CREATE_NAMESPACES: "true"})
    await world.reconcile("m")
    assert (await world.skr.get(NAMESPACES, "shop"))["metadata"]["name"] == "shop"


@pytest.mark.parametrize("kind", ["Namespace", "CustomResourceDefinition"])
async def test_namespace_that_an_object_in_no_namespace_names_is_not_created(world: Syncing, kind: str) -> None:
    """No policy looks at it."""
    shop: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    document = shop if kind == "Namespace" else definition("colours", "Colour")
    named = {**document, "metadata": {**document["metadata"], "namespace": "kube-theirs"}}
    await world.write("m", resource=as_text(named), annotations={names.CREATE_NAMESPACES: "true"})
    await world.reconcile("m")
    with pytest.raises(NotFound):
        await world.skr.get(NAMESPACES, "kube-theirs")


class StatesWritten(Rule):
    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if request.is_write and request.subresource == "status":
            status = answer.document()["status"]
            self.written.append((status["state"], len(status.get("synced", ()))))
        return answer


async def test_text_that_failed_does_not_look_as_if_it_were_new_at_each_attempt(
    world: Syncing, simulation: Simulation
) -> None:
    await world.write("m", "one", "two")
    refused = Refused(403, "Forbidden", "a policy of the cluster denied the request")
    deny = Refuse(lambda each: (each.verb, each.name) == ("apply", "two"), None, refused)
    with simulation.cluster("skr").ruled_by(deny):
        with pytest.raises(KubeError):
            await world.reconcile("m")
        with simulation.cluster("kcp").ruled_by(rule := StatesWritten()), pytest.raises(KubeError):
            await world.reconcile("m")
    assert {state for state, _ in rule.written} <= {"Error"}


async def test_namespace_does_not_wait_for_the_module_that_waits_for_it(
    both: tuple[Modules, Syncing],
) -> None:
    modules, syncing = both
    key = ObjectKey(KCP, "demo-cloud-resources")
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    await syncing.write("m", resource=as_text(shop))
    await syncing.reconcile("m")
    await modules.want([config_map("rest") | {"metadata": {"name": "rest", "namespace": "shop"}}], key)
    await modules.reconcile(key)
    config = {"metadata": {"name": "m", "namespace": KCP}, "spec": {"kyma": "demo", "module": "cloud-resources"}}
    await syncing.kcp.create(MODULE_CONFIGS, config, KCP, field_manager="test")
    await modules.delete(key=key)
    await modules.see(MODULE_CONFIGS, None)
    await modules.reconcile(key)
    assert (await modules.condition(key=key)).message.startswith("waiting for deletion of the objects")
    await syncing.see(MANIFESTS)
    await syncing.see(MODULE_CONFIGS, None)
    await syncing.kcp.delete(SYNC_RESOURCES, "m", KCP)
    for _ in range(5):
        await syncing.reconcile("m")
    assert await is_gone(syncing.kcp.get(SYNC_RESOURCES, "m", KCP))
    await syncing.kcp.delete(MODULE_CONFIGS, "m", KCP)
    await modules.see(MODULE_CONFIGS, None)
    await modules.reconcile_until_gone(key)
    assert await is_gone(syncing.skr.get(CONFIG_MAPS, "rest", "shop"))


async def test_namespace_does_not_wait_for_what_a_module_may_not_delete(
    both: tuple[Modules, Syncing],
) -> None:
    modules, syncing = both
    await modules.want([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}])
    await modules.reconcile()
    await syncing.write("m", resource=as_text({**config_map("x"), "metadata": {"name": "x", "namespace": "shop"}}))
    await syncing.reconcile("m")
    narrow = {"spec": {"namespaces": [SKR]}}
    await syncing.kcp.merge_patch(MODULE_POLICIES, "cloud-resources", narrow, KCP, field_manager="test")
    await syncing.see(MODULE_POLICIES)
    await syncing.kcp.delete(SYNC_RESOURCES, "m", KCP)
    await syncing.reconcile("m")
    assert await syncing.reason("m") == "PolicyViolation"
    await modules.see(SYNC_RESOURCES, None)
    await modules.delete()
    for _ in range(5):
        await modules.reconcile()
    assert await modules.manifest() is None
    assert not await is_gone(syncing.skr.get(CONFIG_MAPS, "x", "shop"))


async def test_operator_stays_with_a_crd_whose_objects_it_cleans_up(world: Syncing) -> None:
    pod = {"metadata": {"labels": {"app": "operator"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "operator"}}, "template": pod}
    metadata = {"name": "operator", "namespace": SKR}
    operator = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    deployments = await world.skr.mapper.resource("apps/v1", "Deployment")

    async def outcome() -> tuple[str, int]:
        await world.reconcile("m")
        return await world.reason("m"), len((await world.skr.list(deployments, SKR)).items)

    await world.write("m", resource=as_text(definition(), operator))
    await world.reconcile("m")
    users = thing("mine")
    users["metadata"]["finalizers"] = ["example.com/of-the-operator"]
    await world.skr.create(THINGS, users, SKR, field_manager="user")
    await world.write("m", resource=as_text(config_map("left")))
    assert await outcome() == ("ObjectsInUse", 1)
    await world.skr.delete(THINGS, "mine", SKR)
    assert await outcome() == ("ObjectsInUse", 1)
    await world.skr.merge_patch(THINGS, "mine", {"metadata": {"finalizers": None}}, SKR)
    await outcome()
    assert await outcome() == ("ObjectsReady", 0)
    assert await is_gone(world.skr.get(CRDS, definition()["metadata"]["name"]))
