"""What the former version recorded of a module counts: its conditions, its inventory and its finalizers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kube_simulation import serve_simulation
from lifecycle_manager.resources import MANIFESTS
from lifecycle_manager.takeover import former
from lifecycle_manager_api import names
from tests.manifest_world import KEY, World, simulated_client, simulated_control_plane
from tests.modules import default_module_cr, module_crs, operator

SKR = names.SKR_NAMESPACE
GARDENS = module_crs("garden")
CRD = operator("garden", "1.0.0")[0]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with (
        serve_simulation() as simulation,
        await simulated_control_plane(simulation) as kcp,
        await simulated_client(simulation, "skr") as skr,
        World(kcp, skr, tmp_path) as world,
    ):
        yield world


async def record(world: World, status: str) -> None:
    """Write the status of a Manifest as the former version does."""
    condition = {
        "type": "ModuleCR",
        "status": status,
        "reason": "ModuleCRCreated",
        "message": "module CR was created",
        "lastTransitionTime": "2026-08-01T08:00:00Z",
    }
    document: dict[str, Any] = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "status": {"state": "Ready", "conditions": [condition], "synced": []},
    }
    manager = "declarative.kyma-project.io/applier"
    await world.kcp.apply(MANIFESTS, KEY.name, document, KEY.namespace, field_manager=manager, subresource="status")


@pytest.mark.parametrize(("status", "created"), [("True", []), ("False", ["default"])])
async def test_default_module_cr_that_was_created_before_is_not_created_again(
    world: World, status: str, created: list[str]
) -> None:
    await world.want([CRD], resource=default_module_cr("garden"))
    await record(world, status)
    await world.reconcile()
    assert [each["metadata"]["name"] for each in (await world.skr.list(GARDENS, SKR)).items] == created
    condition = await world.said("ModuleCR")
    assert (condition.status, condition.reason) == ("True", "Created")


async def test_finalizers_go_when_the_module_is_removed(world: World) -> None:
    await world.want([CRD])
    await world.reconcile()
    await world.change({"metadata": {"finalizers": [names.MANIFEST_FINALIZER, *former.MANIFEST_FINALIZERS]}})
    await world.delete()
    await world.reconcile_until_gone()


async def test_manifest_with_finalizers_of_the_former_version_alone_goes(world: World) -> None:
    await world.want([CRD])
    await world.change({"metadata": {"finalizers": [*former.MANIFEST_FINALIZERS]}})
    await world.delete()
    await world.reconcile_until_gone()
