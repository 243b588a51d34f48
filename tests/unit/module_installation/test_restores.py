"""A control plane that is restored from a backup: its Manifests are older than what is in the clusters."""

import msgspec
import pytest

from kube_runtime import Change
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager.module_installation.controller import was_restored
from lifecycle_manager_api import Manifest, State, names
from tests import builders
from tests.kinds import CONFIG_MAPS
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document

SKR = names.SKR_NAMESPACE
ROSE: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rose", "namespace": SKR}}


async def installed(world: Modules) -> Manifest:
    await world.want([ROSE])
    await world.reconcile()
    await world.reconcile()
    manifest = await world.manifest()
    assert manifest is not None
    assert manifest.status.state == "Ready"
    return manifest


async def restore(world: Modules, backup: Manifest) -> Manifest:
    """Have the control plane what it had then: an object of another uid, with the status of before."""
    await world.want([ROSE])
    metadata = {"finalizers": list(backup.metadata.finalizers), "labels": dict(backup.metadata.labels)}
    await world.change({"metadata": metadata})
    status = {"status": msgspec.to_builtins(backup.status)}
    return await world.kcp.merge_patch(MANIFESTS, KEY.name, status, KEY.namespace, subresource="status")


async def is_in_cluster(world: Modules) -> bool:
    return bool((await world.skr.list(CONFIG_MAPS, SKR)).items)


async def test_module_that_was_installed_anew_since_the_backup_goes_when_it_is_removed(world: Modules) -> None:
    backup = await installed(world)
    await world.delete()
    await world.reconcile_until_gone()
    await installed(world)
    await world.change({"metadata": {"finalizers": []}})
    await world.delete()
    await restore(world, backup)
    await world.delete()
    await world.reconcile_until_gone()
    assert not await is_in_cluster(world)


async def test_module_that_was_removed_since_the_backup_and_is_wanted_again_is_installed(world: Modules) -> None:
    backup = await installed(world)
    await world.delete()
    await world.reconcile_until_gone()
    assert not await is_in_cluster(world)
    assert was_restored(Change(None, await restore(world, backup)))
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    assert await is_in_cluster(world)


@pytest.mark.parametrize(
    ("is_new", "may_be_restored", "state", "is_read"),
    [
        (True, False, State.READY, True),
        (False, True, State.READY, True),
        (False, False, State.READY, False),
        (True, False, State.EMPTY, False),
        (True, False, State.ERROR, False),
    ],
)
def test_manifest_that_comes_with_the_state_of_a_backup_is_read_as_a_whole(
    state: State, *, is_new: bool, may_be_restored: bool, is_read: bool
) -> None:
    status = {"state": str(state), "observedGeneration": 1}
    manifest = builders.manifest(generation=1, status=status)
    assert was_restored(Change(None if is_new else manifest, manifest, may_be_restored)) is is_read
    assert not was_restored(Change(manifest, None))
