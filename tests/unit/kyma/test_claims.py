"""An SKR belongs to one Kyma: two whose Secrets lead there do not undo each other's work."""

from lifecycle_manager import catalog_sync, mandatory_modules
from lifecycle_manager.catalog_sync import CatalogSettings
from lifecycle_manager.contract.resources import (
    KYMAS,
)
from lifecycle_manager.mandatory_modules import MandatorySettings
from lifecycle_manager_api import find, names
from tests import builders
from tests.waiting import is_gone
from tests.world import World, key_of

SKR = names.SKR_NAMESPACE


def add_catalog(world: World) -> None:
    catalog_sync.setup(world.manager, world.connections, world.offers, CatalogSettings(interval_seconds=0.0))


async def test_skr_of_another_kyma_is_not_touched_until_that_is_gone(world: World) -> None:
    add_catalog(world)
    mandatory_modules.setup(world.manager, world.offers, MandatorySettings(), world.settings.rollout)
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
    await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
    await world.register("first", "cloud-resources")
    await world.introduced("first")
    await world.turn("catalog", key_of("first"))
    await world.reconcile("first", times=2)

    await world.register("second", cluster="first")
    before = world.requests
    await world.introduced("second")
    await world.turn("catalog", key_of("second"))
    await world.turn("mandatory-modules", key_of("second"))
    await world.reconcile("first")

    assert world.writes_to("first", before) == []
    assert list(await world.manifests()) == ["first-cloud-resources"]
    second = await world.in_kcp("second")
    reachable = find(second.status.conditions, "SKRReachable")
    assert reachable is not None
    assert (second.status.state, reachable.reason) == ("Error", "SKRClaimed")
    assert "Kyma first" in reachable.message
    assert (await world.reconcile("second")).requeue_after is not None

    await world.kcp.delete(KYMAS, "second", names.KCP_NAMESPACE)
    await world.reconcile("second")
    assert await is_gone(world.in_kcp("second"))
    assert (await world.in_skr("first")).metadata.deletion_timestamp is None


async def test_cluster_of_a_kyma_that_is_gone_is_taken_over(world: World) -> None:
    await world.register("first")
    await world.introduced("first")
    await world.kcp.merge_patch(KYMAS, "first", {"metadata": {"finalizers": []}}, names.KCP_NAMESPACE)
    await world.register("second", cluster="first")
    await world.introduced("second")
    assert (await world.in_kcp("second")).status.state == "Error"
    await world.kcp.delete(KYMAS, "first", names.KCP_NAMESPACE)
    await world.reconcile("second", times=2)
    owner = (await world.in_skr("first")).metadata.annotations[names.OWNED_BY]
    assert owner == "kcp-system/second"
    assert (await world.in_kcp("second")).status.state != "Error"


async def test_users_can_not_claim_their_cluster_for_another_kyma(world: World) -> None:
    await world.register("first")
    await world.register("second")
    await world.introduced("first")
    await world.introduced("second")
    forged = {"metadata": {"annotations": {names.OWNED_BY: "kcp-system/second"}}}
    await (await world.skr("first")).merge_patch(KYMAS, "default", forged, SKR, field_manager="kubectl")
    await world.reconcile("first")
    assert (await world.in_skr("first")).metadata.annotations[names.OWNED_BY] == "kcp-system/first"
