"""A SyncResource that names an object which the Manifest of a module has."""

from lifecycle_manager.contract.resources import SYNC_RESOURCES
from tests.integration.kube_runtime.things import as_text
from tests.kinds import CONFIG_MAPS
from tests.manifest_clusters import Modules
from tests.modules import config_map
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing
from tests.waiting import is_gone


async def data_of(syncing: Syncing, name: str = "shared") -> dict[str, str]:
    live = await syncing.skr.get(CONFIG_MAPS, name, SKR)
    return dict(live["data"])


async def remove(syncing: Syncing) -> None:
    await syncing.kcp.delete(SYNC_RESOURCES, "m", KCP)
    while not await is_gone(syncing.kcp.get(SYNC_RESOURCES, "m", KCP)):
        await syncing.reconcile("m")


async def test_object_of_a_module_is_neither_overwritten_nor_deleted(both: tuple[Modules, Syncing]) -> None:
    modules, syncing = both
    await modules.want([config_map("shared", module="1")])
    await modules.reconcile()
    await syncing.write("m", resource=as_text(config_map("shared", other="2")))
    await syncing.reconcile("m")
    assert await syncing.reason("m") == "Conflict"
    assert await data_of(syncing) == {"module": "1"}
    await remove(syncing)
    assert await data_of(syncing) == {"module": "1"}


async def test_object_that_a_module_takes_is_not_deleted_with_its_sync_resource(
    both: tuple[Modules, Syncing],
) -> None:
    modules, syncing = both
    await syncing.write("m", resource=as_text(config_map("shared", other="2")))
    await syncing.reconcile("m")
    await modules.want([config_map("shared", module="1")])
    await modules.reconcile()
    await syncing.reconcile("m")
    assert await syncing.reason("m") == "Conflict"
    await remove(syncing)
    assert await data_of(syncing) == {"module": "1"}
