"""Kinds and addresses that change under a module, on a real API server: nothing of users goes, each module ends."""

from contextlib import suppress
from typing import Any

import pytest

from kube_runtime import KubeError, NotFound, NotServed, Resource
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS, CRDS
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, config_map, crd, default_module_cr, group_of, module_crs
from tests.waiting import eventually, is_gone

SKR = names.SKR_NAMESPACE


def custom(kind: str, version: str = "v1") -> Document:
    api_version = f"{group_of(kind)}/{version}"
    return {"apiVersion": api_version, "kind": kind.capitalize(), "metadata": {"name": "s"}, "spec": {}}


async def exists(world: Modules, resource: Resource[Any], name: str, namespace: str | None = SKR) -> bool:
    try:
        return not (await world.skr.get(resource, name, namespace))["metadata"].get("deletionTimestamp")
    except (NotFound, NotServed):
        return False


async def reconcile(world: Modules, times: int = 3) -> None:
    for _ in range(times):
        with suppress(KubeError):  # retried
            await world.reconcile()


async def until_gone(world: Modules) -> None:
    async def gone() -> bool:
        await reconcile(world, 1)
        return await world.manifest() is None

    await eventually(gone, within=60, what="the Manifest is gone")


async def until_ready(world: Modules) -> None:
    async def ready() -> bool:
        await reconcile(world, 1)
        return await world.state() == ("Ready", "ModuleReady")

    await eventually(ready, within=60, what="the module is ready")


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_crd_whose_scope_changes_fails_by_name_and_finds_its_way_back(world: Modules, is_restarted: bool) -> None:
    name = f"scopes.{group_of('scope')}"
    v1 = [crd("scope", "v1"), custom("scope"), config_map("beside")]
    v2 = [crd("scope", "v1", scope="Cluster"), custom("scope"), config_map("another")]
    await world.want(v1)
    await until_ready(world)
    await world.want(v2, version="2.0.0")
    await reconcile(world)
    state, reason = await world.state()
    assert (state, reason) == ("Error", "ApplyFailed")
    manifest = await world.manifest()
    assert manifest is not None
    assert f"CustomResourceDefinition {name}" in str(manifest.status.conditions)
    assert "scope" in str(manifest.status.conditions)
    assert await exists(world, CONFIG_MAPS, "another")
    if is_restarted:
        await world.restart()
    await world.want(v1)
    await until_ready(world)
    assert not await exists(world, CONFIG_MAPS, "another")
    await world.want(v2, version="2.0.0")
    await reconcile(world)
    await world.delete()
    await until_gone(world)
    assert not await exists(world, CRDS, name, None)
    assert not await exists(world, CONFIG_MAPS, "beside")


async def test_module_comes_and_goes_where_the_cluster_has_its_crd_with_another_scope(world: Modules) -> None:
    name = f"places.{group_of('place')}"
    await world.skr.create(CRDS, crd("place", "v1"), field_manager="user")
    await world.want([crd("place", "v1", scope="Cluster"), custom("place"), config_map("beside")])
    await reconcile(world)
    assert await exists(world, CONFIG_MAPS, "beside")
    await world.delete()
    await until_gone(world)
    assert await exists(world, CRDS, name, None) in {True, False}
    assert not await exists(world, CONFIG_MAPS, "beside")
    with suppress(NotFound, NotServed):
        await world.skr.delete(CRDS, name)


async def test_kind_that_a_user_creates_again_with_another_scope_is_applied_and_removed(world: Modules) -> None:
    """The module has an object of a kind that is not its own. Its process goes on."""
    await world.skr.create(CRDS, crd("yard", "v1"), field_manager="user")
    await world.want([custom("yard"), config_map("beside")])
    await until_ready(world)
    name = f"yards.{group_of('yard')}"
    await world.skr.delete(CRDS, name)
    await eventually(lambda: is_gone(world.skr.get(CRDS, name)), within=60, what="the CRD is gone")
    await world.skr.create(CRDS, crd("yard", "v1", scope="Cluster"), field_manager="user")
    yards = Resource.dynamic(group_of("yard"), "v1", "Yard", "yards", namespaced=False)

    async def applied() -> bool:
        with suppress(KubeError):
            await world.reconcile(KEY, ReadScope.EVERYTHING)
            return await exists(world, yards, "s", None)
        return False

    await eventually(applied, within=60, what="the object is there with its new scope")
    await world.delete()
    await until_gone(world)
    assert not await exists(world, yards, "s", None)
    await world.skr.delete(CRDS, name)


@pytest.mark.parametrize("how", ["removed", "pruned"])
async def test_object_whose_version_is_not_served_any_more_goes(world: Modules, how: str) -> None:
    kind = f"plant{how}"
    plants = Resource.dynamic(group_of(kind), "v1", kind.capitalize(), f"{kind}s", namespaced=True)
    await world.skr.create(CRDS, crd(kind, "v1", "v1beta1"), field_manager="user")
    await world.want([custom(kind, "v1beta1"), config_map("beside")])
    await until_ready(world)
    await world.skr.apply(CRDS, f"{kind}s.{group_of(kind)}", crd(kind, "v1"), field_manager="user")
    if how == "removed":
        await world.delete()
        await until_gone(world)
    else:
        await world.want([config_map("beside")], version="2.0.0")
        await until_ready(world)
    assert not await exists(world, plants, "s")


@pytest.mark.parametrize("served", [("v1",), ()])
async def test_crd_with_users_objects_stays_whatever_version_is_served(world: Modules, served: tuple[str, ...]) -> None:
    kind = f"garden{len(served)}"
    gardens, name = module_crs(kind), f"{kind}s.{group_of(kind)}"
    await world.want([crd(kind, "v1", stored="v2"), config_map("beside")])
    await until_ready(world)
    await world.skr.create(gardens, custom(kind), SKR, field_manager="user")
    await world.skr.apply(CRDS, name, crd(kind, *served, stored="v2"), field_manager="user")
    await world.delete()
    await reconcile(world)
    assert await exists(world, CRDS, name, None)
    manifest = await world.manifest()
    assert manifest is not None
    named = (f"{kind.capitalize()} {SKR}/s", f"CustomResourceDefinition {name} serves no version")
    assert any(each in str(manifest.status.conditions) for each in named)
    await world.skr.apply(CRDS, name, crd(kind, "v1", stored="v2"), field_manager="user")
    await eventually(lambda: exists(world, gardens, "s"), what="the version is served again")
    await world.skr.delete(gardens, "s", SKR)
    await until_gone(world)


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
@pytest.mark.parametrize("annotation", ["true", "false"])
async def test_default_module_cr_is_where_its_kind_is_whatever_the_annotation_says(
    world: Modules, scope: str, annotation: str
) -> None:
    kind = f"shed{scope.lower()}{annotation}"
    await world.want([crd(kind, "v1", scope=scope)], resource=default_module_cr(kind))
    await world.change({"metadata": {"annotations": {names.IS_CLUSTER_SCOPED: annotation}}})
    await reconcile(world)
    namespaced = scope == "Namespaced"
    sheds = Resource.dynamic(group_of(kind), "v1", kind.capitalize(), f"{kind}s", namespaced=namespaced)
    assert await exists(world, sheds, "default", SKR if namespaced else None)
    await world.delete()
    await until_gone(world)
    assert not await exists(world, CRDS, f"{kind}s.{group_of(kind)}", None)
