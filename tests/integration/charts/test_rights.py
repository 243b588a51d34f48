"""The programs have the rights that they need, and no others: what the API servers have heard, against the roles."""

from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from typing import Any

from kube_runtime import Client, NotFound, Resource
from kyma_demo.names import USER
from kyma_demo.witness import CONFIG_MAPS
from lifecycle_manager.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
    WATCHERS,
)
from lifecycle_manager.skr_webhook import ROTATE, AuthorityStore
from lifecycle_manager_api import names
from tests.integration.charts.rights import granted_by, requests_in, unused
from tests.integration.charts.world import World
from tests.integration.lifecycle_manager.offers import installing, on_offer, release, template
from tests.integration.lifecycle_manager.test_watcher_resources import watcher
from tests.modules import as_text
from tests.registries import BlobServer, blob_server
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CLOUD_RESOURCES = {"name": "cloud-resources", "managed": True}
EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
NAMESPACES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
IN_KCP = files("lifecycle_manager.rbac").joinpath("kcp.yaml").read_text()
IN_SKR = files("lifecycle_manager.rbac").joinpath("skr.yaml").read_text()
OF_MODULE_MANAGERS = files("kyma_module_manager").joinpath("rbac.yaml").read_text()


async def test_programs_ask_for_nothing_that_they_may_not(world: World) -> None:
    """What was refused under the roles of an earlier release, and answered under those of this one, is in order."""
    asked = [
        request
        for cluster in (world.clusters.kcp, *world.clusters.skrs)
        for request in requests_in(cluster.directory / "audit.log")
    ]
    answered = {(request.user, request.rights, request.path) for request in asked if request.code < 400}
    refused = {
        (request.user, request.rights, request.path) for request in asked if request.code == 403 and request.bound
    }
    assert refused - answered == set()
    users = {request.user.rpartition(":")[2] for request in asked}
    assert {"lifecycle-manager", "cloud-resources-module-manager"} <= users


async def test_every_right_is_used(world: World) -> None:
    """What needs them rarely is done here; the rest was, when the world was set up."""
    await world.story.change_volume("390Gi")
    await _repeat_an_event(world)
    await _follow_a_watcher(world)
    async with blob_server() as layers:
        await _install_and_remove_modules(world, layers)
    await _rotate_the_ca(world)
    await _make_a_namespace(world)
    await _delete_the_kyma(world)
    await world.manage_the_user_cluster()
    await world.story.change_volume("400Gi")

    kcp = list(requests_in(world.clusters.kcp.directory / "audit.log"))
    skr = list(requests_in(world.clusters.skrs[0].directory / "audit.log"))
    never = (
        unused(granted_by(IN_KCP), "system:serviceaccount:kcp-system:lifecycle-manager", kcp)
        | unused(granted_by(OF_MODULE_MANAGERS), "system:serviceaccount:kcp-system:cloud-resources-module-manager", kcp)
        | unused(granted_by(IN_SKR), "system:serviceaccount:kube-system:lifecycle-manager", skr)
    )
    assert {str(each) for each in never} == set(), "take these from the roles, or have them used here"


async def _repeat_an_event(world: World) -> None:
    """Have the same happen again: that is no new Event, but changes the first, where both were the same replica's."""

    async def repeated() -> bool:
        for chosen in (["cloud-resources", "tpyo"], ["cloud-resources"]):
            await world.story.set_modules([{"name": name, "managed": True} for name in chosen])
            await eventually(partial(_lists, world, chosen))
        events = (await world.kcp.list(EVENTS, KCP)).items
        return any("tpyo" in event["note"] and event.get("series") for event in events)

    await eventually(repeated)


async def _follow_a_watcher(world: World) -> None:
    """Have a Watcher say how far it has come, and leave."""
    await world.kcp.apply(WATCHERS, "colours", watcher("red"), KCP, field_manager="test")

    async def ready() -> bool:
        return (await world.kcp.get(WATCHERS, "colours", KCP)).status.state == "Ready"

    await eventually(ready)
    await world.kcp.delete(WATCHERS, "colours", KCP)


async def _make_a_namespace(world: World) -> None:
    """Have a SyncResource, which nobody will remove, bring something into a namespace that is not there."""
    document = {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": "far", "namespace": KCP, "annotations": {names.CREATE_NAMESPACES: "true"}},
        "spec": {
            "kyma": "demo",
            "module": "cloud-resources",
            "resource": "{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: far}}",
        },
    }
    await world.kcp.apply(SYNC_RESOURCES, "far", document, KCP, field_manager="test")
    await eventually(_there(world.skr, CONFIG_MAPS, "far", "far"))


async def _install_and_remove_modules(world: World, layers: BlobServer) -> None:
    """Install a module that is asked for and one that is not, put the catalog right, and remove them."""
    asked, unasked = _module(layers, "telemetry"), _module(layers, "warden", mandatory=True)
    async with on_offer(
        world.kcp,
        *(asked, release("telemetry", regular="1.0.0")),
        *(unasked, release("warden", mandatory="1.0.0")),
    ):
        await world.story.set_modules([CLOUD_RESOURCES, {"name": "telemetry", "managed": True}])
        for name in ("telemetry", "warden"):
            await eventually(_there(world.skr, CONFIG_MAPS, name, SKR))
        for resource, name in ((MODULE_TEMPLATES, "telemetry-1.0.0"), (MODULE_RELEASE_METAS, "telemetry")):
            await eventually(_there(world.skr, resource, name, SKR))
            await _edit_and_see_it_put_right(world.skr, resource, name)
        # Without it there is nothing of the module that asks for more, such as its ModuleConfigs.
        await world.story.set_modules([])
        for left in (MODULE_CONFIGS, SYNC_RESOURCES):
            await eventually(partial(_none, world.kcp, left))
    await eventually(partial(_none, world.kcp, MANIFESTS))
    await world.story.set_modules([CLOUD_RESOURCES])


async def _edit_and_see_it_put_right(skr: Client, resource: Resource[Any], name: str) -> None:
    """Have a user add what an apply leaves alone."""
    before = await skr.get(resource, name, SKR)
    await skr.merge_patch(resource, name, {"spec": EXTRA[resource.kind]}, SKR, field_manager=USER)

    async def put_right() -> bool:
        return bool((await skr.get(resource, name, SKR)).spec == before.spec)

    await eventually(put_right)


async def _rotate_the_ca(world: World) -> None:
    mark = {"metadata": {"annotations": {ROTATE: "now"}}}
    await world.kcp.merge_patch(SECRETS, AuthorityStore.name, mark, KCP, field_manager=USER)

    async def announced() -> bool:
        return ROTATE not in (await world.kcp.get(SECRETS, AuthorityStore.name, KCP)).metadata.annotations

    await eventually(announced)


async def _delete_the_kyma(world: World) -> None:
    """Delete the Kyma, whose CR in its cluster another version of Lifecycle Manager has held."""
    held = {"metadata": {"finalizers": [names.KYMA_FINALIZER]}}
    await world.skr.merge_patch(KYMAS, "default", held, SKR, field_manager=USER)
    await world.kcp.delete(KYMAS, "demo", KCP)
    await eventually(_gone(world.kcp, KYMAS, "demo", KCP))


EXTRA: dict[str, dict[str, Any]] = {
    "ModuleTemplate": {"associatedResources": [{"group": "", "version": "v1", "kind": "Secret"}]},
    "ModuleReleaseMeta": {"beta": True},
}


def _module(layers: BlobServer, name: str, *, mandatory: bool = False) -> dict[str, Any]:
    """Return the template of a module that is a ConfigMap, in the roles of the sample."""
    document = template(name, "1.0.0", mandatory=mandatory, data=None)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SKR}}
    return installing(document, layers.host, layers.hold(as_text([config_map]).encode()))


async def _lists(world: World, modules: list[str]) -> bool:
    kyma = await world.kcp.get(KYMAS, "demo", KCP)
    return sorted(module.name for module in kyma.status.modules) == sorted(modules)


def _there(client: Client, resource: Resource[Any], name: str, namespace: str) -> Callable[[], Awaitable[bool]]:
    async def there() -> bool:
        try:
            await client.get(resource, name, namespace)
        except NotFound:
            return False
        return True

    return there


def _gone(client: Client, resource: Resource[Any], name: str, namespace: str) -> Callable[[], Awaitable[bool]]:
    there = _there(client, resource, name, namespace)

    async def gone() -> bool:
        return not await there()

    return gone


async def _none(client: Client, resource: Resource[Any]) -> bool:
    return not (await client.list(resource, KCP)).items
