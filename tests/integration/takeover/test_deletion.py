"""A Kyma that is deleted while the versions change takes everything along, although ours has installed nothing."""

import pytest

from kube_runtime import NotFound
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager_api import names
from tests import builders
from tests.integration.takeover import seeding
from tests.integration.takeover.conftest import KCP, Takeover
from tests.waiting import eventually

OBSERVER = "example.com/observer"


async def test_kyma_that_was_deleted_before_the_takeover_goes_with_all_of_it(world: Takeover) -> None:
    await world.kcp.delete(KYMAS, seeding.KYMA, KCP)
    async with world.running():
        await world.until_nothing_is_left()


async def test_kyma_and_manifest_of_a_deleted_cluster_go_whatever_their_finalizers(world: Takeover) -> None:
    """There is no access Secret; those of the Manifest go in any case, those of the Kyma by an option."""
    kyma = builders.as_written(builders.kyma("lost"))
    manifest = builders.as_written(builders.manifest(kyma="lost"))
    manifest["metadata"]["finalizers"] = [names.MANIFEST_FINALIZER, "label-removal-finalizer", OBSERVER]
    kyma["metadata"]["finalizers"] = [names.KYMA_FINALIZER, OBSERVER]
    await world.kcp.create(KYMAS, kyma, KCP, field_manager="test")
    await world.kcp.create(MANIFESTS, manifest, KCP, field_manager="test")
    await world.kcp.delete(KYMAS, "lost", KCP)
    await world.kcp.delete(MANIFESTS, manifest["metadata"]["name"], KCP)

    async def is_left_with_the_others() -> bool:
        return (await world.kcp.get(KYMAS, "lost", KCP)).metadata.finalizers == (OBSERVER,)

    async with world.running(access_secret_grace="1s"):
        await eventually(is_left_with_the_others)
        with pytest.raises(NotFound):
            await world.kcp.get(MANIFESTS, manifest["metadata"]["name"], KCP)
    async with world.running(access_secret_grace="1s", remove_finalizers_of_others=True):
        await eventually(lambda: _is_gone(world))


async def _is_gone(world: Takeover) -> bool:
    return "lost" not in {each.metadata.name for each in (await world.kcp.list(KYMAS, KCP)).items}
