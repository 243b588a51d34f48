"""What the former version recorded of a module counts: its conditions, its inventory and its finalizers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kube_simulation import Simulation
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager.takeover import former
from lifecycle_manager_api import names
from tests import builders
from tests.clusters import simulated_clusters
from tests.integration.takeover import seeding
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, default_module_cr, module_crs, operator

SKR = names.SKR_NAMESPACE
GARDENS = module_crs("garden")
CRD = operator("garden", "1.0.0")[0]


@pytest.fixture
async def world(simulation: Simulation, tmp_path: Path) -> AsyncIterator[Modules]:
    async with (
        simulated_clusters(simulation) as (kcp, skr),
        Modules(kcp, skr, tmp_path) as world,
    ):
        yield world


async def record(world: Modules, status: str, *synced: Document) -> None:
    """Write the status of a Manifest as the former version does."""
    condition = builders.condition("ModuleCR", "ModuleCRCreated", "module CR was created", status)
    document: dict[str, Any] = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "status": {"state": "Ready", "conditions": [condition], "synced": list(synced)},
    }
    manager = "declarative.kyma-project.io/applier"
    await world.kcp.apply(MANIFESTS, KEY.name, document, KEY.namespace, field_manager=manager, subresource="status")


def reference_to(document: Document) -> Document:
    """Return an entry of `status.synced`."""
    group, _, version = document["apiVersion"].rpartition("/")
    metadata = document["metadata"]
    where = {"namespace": metadata.get("namespace", ""), "name": metadata["name"]}
    return {"group": group, "version": version, "kind": document["kind"], **where}


async def test_each_object_costs_one_patch_and_one_apply_and_nothing_afterwards(
    world: Modules, simulation: Simulation
) -> None:
    objects = list(seeding.module_objects(1))
    for each in objects:
        await seeding.apply(world.skr, each, seeding.APPLIER)
    await world.want_text(seeding.module_text(1))
    await record(world, "True", *map(reference_to, objects))
    began = simulation.requests()[-1].number

    await world.reconcile()

    writes = [each.verb for each in simulation.requests(lambda it: it.cluster == "skr" and it.is_write, since=began)]
    assert sorted(writes) == ["apply"] * len(objects) + ["patch"] * len(objects)
    taken_over = simulation.requests()[-1].number
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    await world.restart()
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    assert not simulation.requests(lambda it: it.cluster == "skr" and it.is_write, since=taken_over)


@pytest.mark.parametrize(("status", "created"), [("True", []), ("False", ["default"])])
async def test_default_module_cr_that_was_created_before_is_not_created_again(
    world: Modules, status: str, created: list[str]
) -> None:
    await world.want([CRD], resource=default_module_cr("garden"))
    await record(world, status)
    await world.reconcile()
    assert [each["metadata"]["name"] for each in (await world.skr.list(GARDENS, SKR)).items] == created
    condition = await world.condition("ModuleCR")
    assert (condition.status, condition.reason) == ("True", "Created")


async def test_finalizers_go_when_the_module_is_removed(world: Modules) -> None:
    await world.want([CRD])
    await world.reconcile()
    await world.change({"metadata": {"finalizers": [names.MANIFEST_FINALIZER, *former.MANIFEST_FINALIZERS]}})
    await world.delete()
    await world.reconcile_until_gone()


async def test_manifest_with_finalizers_of_the_former_version_alone_goes(world: Modules) -> None:
    await world.want([CRD])
    await world.change({"metadata": {"finalizers": [*former.MANIFEST_FINALIZERS]}})
    await world.delete()
    await world.reconcile_until_gone()
