"""The catalog in a user's cluster, as requests to a simulated one: what is sent, and what comes back."""

from datetime import timedelta

import pytest

from kube_runtime import KubeError, ObjectKey
from kube_simulation import ApiRequest, Refuse
from lifecycle_manager.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
)
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, find, names
from tests import builders
from tests.kyma_world import NO_API, kyma_world
from tests.waiting import is_gone

SKR = names.SKR_NAMESPACE
KEY = ObjectKey(names.KCP_NAMESPACE, "demo")


async def test_definition_that_users_delete_comes_back_with_a_newer_catalog() -> None:
    """The catalog changes before anybody has looked at whether its definitions are there still."""
    async with kyma_world() as world:
        await world.register()
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        await world.bring_catalog()
        skr = await world.skr()
        for plural in ("moduletemplates", "modulereleasemetas"):
            await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{names.GROUP}")
        await world.offer(builders.template(version="0.2.0"), builders.release(regular="0.2.0"))
        await world.bring_catalog()
        assert await skr.get(MODULE_TEMPLATES, "cloud-resources-0.2.0", SKR)
        assert await skr.get(MODULE_TEMPLATES, "cloud-resources-0.1.0", SKR)


async def test_catalog_comes_by_server_side_apply_after_its_definitions_and_only_what_differs_is_sent() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        before = world.asked
        await world.bring_catalog()
        writes = world.writes_to("demo", before)
        kinds = [record.resource.partition(".")[0] for record in writes]
        assert kinds[:2] == ["customresourcedefinitions"] * 2
        assert sorted(kinds[2:]) == ["modulereleasemetas", "moduletemplates"]
        assert {record.verb for record in writes} == {"apply"}
        asked_for = [record for record in world.cluster("demo").requests(since=before) if record.verb == "list"]
        assert not [record for record in asked_for if record.resource.startswith("module")]  # there is nothing yet

        await world.offer(builders.template(version="0.2.0"))
        before = world.asked
        await world.bring_catalog()
        assert [record.name for record in world.writes_to("demo", before)] == ["cloud-resources-0.2.0"]


async def test_quiet_round_of_the_catalog_asks_for_the_revisions_of_one_kind() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.offer(builders.template(), builders.release(regular="0.1.0"))
        await world.introduced()
        await world.bring_catalog()
        for kind in ("moduletemplates", "modulereleasemetas"):
            before = world.asked
            await world.bring_catalog()
            (record,) = world.cluster("demo").requests(since=before)
            assert (record.verb, record.resource.partition(".")[0]) == ("list", kind)
            assert world.writes_to("kcp", before) == []


async def test_catalog_of_which_the_cluster_refuses_hundreds_says_so_and_brings_the_rest() -> None:
    def is_template(request: ApiRequest) -> bool:
        return request.is_write and "/moduletemplates/" in request.path

    async with kyma_world() as world:
        await world.register()
        for number in range(300):
            await world.offer(builders.template(version=f"{number}.0.0"))
        await world.offer(builders.release(regular="7.0.0"))
        await world.introduced()
        with world.cluster("demo").ruled_by(Refuse(is_template, refused=NO_API)), pytest.raises(KubeError):
            await world.bring_catalog()
        condition = find((await world.in_kcp()).status.conditions, "ModuleCatalog")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "CatalogSyncFailed")
        assert "no api today" in condition.message
        skr = await world.skr()
        assert await skr.get(MODULE_RELEASE_METAS, "cloud-resources", SKR)
        await world.bring_catalog()
        assert len((await skr.list(MODULE_TEMPLATES, SKR)).items) == 300


async def test_cluster_that_takes_the_place_of_another_has_the_whole_catalog_at_once() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.introduced()
        await world.bring_catalog()
        await world.bring_catalog()
        world.catalogs.interval_seconds = 600.0
        world.catalogs.forget(KEY)
        told: list[ObjectKey] = []
        world.kymas.on_new_cluster = told.append
        await world.reconcile()
        assert told == []
        await world.move("restored")
        await world.reconcile(times=2)
        assert told == [KEY]
        for kind in (ModuleTemplate.KIND, ModuleReleaseMeta.KIND):
            world.catalogs.wake(KEY, kind)
        await world.bring_catalog()
        skr = await world.skr("restored")
        assert len(await skr.list_revisions(MODULE_TEMPLATES, SKR)) == 1
        assert len(await skr.list_revisions(MODULE_RELEASE_METAS, SKR)) == 1


@pytest.mark.parametrize("purge", [None, timedelta(minutes=5)])
async def test_object_of_the_catalog_that_somebody_holds_keeps_its_kyma_until_it_is_purged(
    purge: timedelta | None,
) -> None:
    async with kyma_world() as world:
        world.catalogs.purge = purge
        await world.register()
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.introduced()
        await world.bring_catalog()
        skr = await world.skr()
        held = {"metadata": {"finalizers": ["example.com/nobody-is-there"]}}
        await skr.merge_patch(MODULE_TEMPLATES, "api-1.0.0", held, SKR, field_manager="user")
        await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
        await world.reconcile(times=2)
        await world.bring_catalog()
        leaving = await world.in_kcp()
        assert leaving.metadata.deletion_timestamp is not None
        catalog = find(leaving.status.conditions, "ModuleCatalog")
        assert catalog is not None
        assert catalog.reason == "Removing"
        world.now = leaving.metadata.deletion_timestamp + timedelta(minutes=5)
        await world.bring_catalog()
        await world.bring_catalog()
        await world.reconcile(times=3)
        assert await is_gone(world.in_kcp()) is (purge is not None)
