"""A Kyma that is deleted while the versions change takes everything along, although ours has installed nothing."""

from typing import Any

import pytest

from kube_runtime import NotFound, Resource
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from tests.integration.takeover.conftest import KCP, Takeover
from tests.takeover_from_go.recordings import restore, the
from tests.takeover_from_go.starts import KYMA, SECOND
from tests.waiting import eventually, is_gone

OBSERVER = "example.com/observer"


async def test_kyma_that_was_deleted_before_the_takeover_goes_with_all_of_it(world: Takeover) -> None:
    await world.kcp.delete(KYMAS, KYMA, KCP)
    async with world.running():
        await world.until_nothing_is_left()


async def test_kyma_and_manifest_of_a_deleted_cluster_go_whatever_their_finalizers(world: Takeover) -> None:
    """There is no access Secret; those of the Manifest go in any case, those of the Kyma by an option."""
    lost = [the("kcp", "Kyma", SECOND), the("kcp", "Manifest", f"{SECOND}-serverless")]
    await restore(world.kcp, lost)
    manifest = lost[1]["metadata"]["name"]
    kinds: tuple[Resource[Any], ...] = (KYMAS, MANIFESTS)
    for resource, document in zip(kinds, lost, strict=True):
        metadata = document["metadata"]
        finalizers = {"metadata": {"finalizers": [*metadata["finalizers"], OBSERVER]}}
        await world.kcp.merge_patch(resource, metadata["name"], finalizers, KCP, field_manager="observer")
        await world.kcp.delete(resource, metadata["name"], KCP)

    async def is_left_with_the_others() -> bool:
        return (await world.kcp.get(KYMAS, SECOND, KCP)).metadata.finalizers == (OBSERVER,)

    async with world.running(access_secret_grace="1s"):
        await eventually(is_left_with_the_others)
        with pytest.raises(NotFound):
            await world.kcp.get(MANIFESTS, manifest, KCP)
    async with world.running(access_secret_grace="1s", remove_finalizers_of_others=True):
        await eventually(lambda: is_gone(world.kcp.get(KYMAS, SECOND, KCP)))


async def test_manifest_goes_whose_kyma_and_cluster_went_before_it(world: Takeover) -> None:
    left = the("kcp", "Manifest", f"{SECOND}-serverless")
    await restore(world.kcp, [left], {SECOND: "gone"})
    name = left["metadata"]["name"].replace(SECOND, "gone")
    await world.kcp.delete(MANIFESTS, name, KCP)
    async with world.running(access_secret_grace="1s"):
        await eventually(lambda: is_gone(world.kcp.get(MANIFESTS, name, KCP)))
