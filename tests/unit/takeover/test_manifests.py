"""What the former version recorded of a module counts: its conditions, its inventory and its finalizers."""

from collections.abc import AsyncIterator

import pytest

from kube_simulation import Simulation
from kyma_takeover import marks
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import names
from tests.clusters import simulated_clusters
from tests.kinds import CRDS
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, default_module_cr, module_crs, operator
from tests.takeover_from_go.modules import OLD
from tests.takeover_from_go.recordings import restore, the
from tests.takeover_from_go.starts import MANIFEST, MODULE, start

SKR = names.SKR_NAMESPACE
GARDENS = module_crs("garden")
CRD = operator("garden", "1.0.0")[0]


@pytest.fixture
async def world(simulation: Simulation) -> AsyncIterator[Modules]:
    async with (
        simulated_clusters(simulation) as (kcp, skr),
        Modules(kcp, skr) as world,
    ):
        yield world


async def record(world: Modules, created: str, *synced: Document) -> None:
    """Write the recorded status of a Manifest; `created` says whether the default Module CR was created."""
    recorded = the("kcp", "Manifest", MANIFEST)["status"]
    conditions = [each for each in recorded["conditions"] if each["type"] == "ModuleCR"]
    status = {**recorded, "conditions": [{**each, "status": created} for each in conditions], "synced": [*synced]}
    document = {"metadata": {"name": KEY.name, "namespace": KEY.namespace}, "status": status}
    await world.kcp.apply(
        MANIFESTS, KEY.name, document, KEY.namespace, field_manager=marks.APPLIER, subresource="status"
    )


async def test_each_object_costs_one_patch_and_one_apply_and_nothing_afterwards(
    world: Modules, simulation: Simulation
) -> None:
    names_of = {(each["kind"], each["metadata"]["name"]) for each in MODULE.objects(OLD)}
    objects = [each for each in start("skr-1") if (each["kind"], each["metadata"]["name"]) in names_of]
    await restore(world.skr, objects, {MANIFEST: KEY.name})
    await world.want_text(MODULE.text(OLD))
    await record(world, "True", *the("kcp", "Manifest", MANIFEST)["status"]["synced"])
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
    await world.skr.create(CRDS, CRD, field_manager="former")
    await world.want([CRD], resource=default_module_cr("garden"))
    await record(world, status)
    await world.reconcile()
    assert [each["metadata"]["name"] for each in (await world.skr.list(GARDENS, SKR)).items] == created
    condition = await world.condition("ModuleCR")
    assert (condition.status, condition.reason) == ("True", "Created")


async def test_finalizers_go_when_the_module_is_removed(world: Modules) -> None:
    await world.want([CRD])
    await world.reconcile()
    await world.change({"metadata": {"finalizers": [names.MANIFEST_FINALIZER, *marks.MANIFEST_FINALIZERS]}})
    await world.delete()
    await world.reconcile_until_gone()


async def test_manifest_with_finalizers_of_the_former_version_alone_goes(world: Modules) -> None:
    await world.want([CRD])
    await world.change({"metadata": {"finalizers": [*marks.MANIFEST_FINALIZERS]}})
    await world.delete()
    await world.reconcile_until_gone()
