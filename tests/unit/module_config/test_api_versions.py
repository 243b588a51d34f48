"""A version of a module that names another kind, or another API version that the cluster does not serve (yet)."""

import copy
from contextlib import nullcontext
from typing import Any

import pytest

from kube_runtime import Resource
from kube_simulation import Refuse
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_POLICIES
from lifecycle_manager.contract.signals import ReadScope
from tests import builders
from tests.unit.module_config.test_controller import CRD, GROUP, INFRASTRUCTURES, MODULE, Module, changed, module
from tests.world import KCP, SKR

LANDSCAPE = {**builders.INFRASTRUCTURE_DATA, "kind": "Landscape"}
LANDSCAPES: Resource[dict[str, Any]] = Resource.dynamic(GROUP, "v1beta1", "Landscape", "landscapes", namespaced=True)
V1 = {**builders.INFRASTRUCTURE_DATA, "apiVersion": f"{GROUP}/v1"}
INFRASTRUCTURES_V1: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, "v1", "Infrastructure", "infrastructures", namespaced=True
)


def crd(*served: str, stored: str = "v1beta1") -> dict[str, Any]:
    made = copy.deepcopy(CRD)
    (version,) = made["spec"]["versions"]  # type: ignore[index]
    made["spec"]["versions"] = [  # type: ignore[index]
        {**version, "name": name, "served": name in served, "storage": name == stored}
        for name in sorted({*served, stored})
    ]
    return made


async def offers_v1(it: Module, data: dict[str, Any] | None = V1) -> None:
    """Have the user's Module CR in KCP, and then a version of the module that names v1 of it, or another kind."""
    await it.world.choose(MODULE)
    await it.world.reconcile(times=2)
    await it.write("precious")
    await it.reconcile(ReadScope.EVERYTHING)
    template = builders.template(version="0.2.0", installs=True, data=data)
    await it.world.offer(template, builders.release(regular="0.2.0"))
    await it.world.reconcile(times=2)
    (status,) = (await it.world.in_kcp()).status.modules
    assert status.template is not None
    assert status.template.metadata.name.endswith("0.2.0")


async def serve_landscapes(it: Module) -> None:
    """Have another kind served that the module may have."""
    document = crd("v1beta1") | {"metadata": {"name": f"landscapes.{GROUP}"}}
    document["spec"]["names"] = {"kind": "Landscape", "listKind": "LandscapeList", "plural": "landscapes"}
    await (await it.world.skr()).create(CUSTOM_RESOURCE_DEFINITIONS, document, field_manager="module")
    kinds = [{"group": GROUP, "kind": each} for each in ("Infrastructure", "Landscape")]
    await it.world.kcp.merge_patch(MODULE_POLICIES, MODULE, {"spec": {"moduleCrKinds": kinds}}, KCP)


async def serve(it: Module, *served: str, stored: str = "v1beta1") -> None:
    document = crd(*served, stored=stored)
    skr = await it.world.skr()
    await skr.apply(CUSTOM_RESOURCE_DEFINITIONS, document["metadata"]["name"], document, field_manager="module")
    await it.world.connections.close()  # as after a restart: nothing is known of the kinds


@pytest.mark.parametrize("cause", [ReadScope.EVERYTHING, changed()])
async def test_module_cr_is_read_in_the_version_that_is_served(cause: object) -> None:
    async with module() as it:
        await offers_v1(it)
        before = await it.config()
        await it.write("more precious")
        await it.reconcile(cause)
        after = await it.config()
        assert before is not None
        assert after is not None
        assert after.metadata.uid == before.metadata.uid
        assert not after.metadata.being_deleted
        assert "more precious" in after.spec.resource
        await serve(it, "v1beta1", "v1")
        await it.reconcile(ReadScope.EVERYTHING)
        assert f"{GROUP}/v1\n" in await it.text()


@pytest.mark.parametrize("cause", [ReadScope.EVERYTHING, changed()])
@pytest.mark.parametrize("stored", ["v1beta1", "v1"])
async def test_nothing_is_deleted_while_the_kind_is_served_in_no_version(cause: object, stored: str) -> None:
    async with module() as it:
        await offers_v1(it)
        before = await it.config()
        await serve(it, stored=stored)
        await it.reconcile(cause)
        after = await it.config()
        assert before is not None
        assert after is not None
        assert (after.metadata.uid, after.metadata.being_deleted) == (before.metadata.uid, False)
        assert after.spec.resource == before.spec.resource


@pytest.mark.parametrize("cause", [ReadScope.EVERYTHING, changed()])
async def test_nothing_is_deleted_while_the_crd_is_gone(cause: object) -> None:
    """Somebody deletes it by mistake, or creates it again: that is no decision about the configuration."""
    async with module() as it:
        await offers_v1(it)
        await (await it.world.skr()).delete(CUSTOM_RESOURCE_DEFINITIONS, CRD["metadata"]["name"])  # type: ignore[index]
        await it.reconcile(cause)
        after = await it.config()
        assert after is not None
        assert not after.metadata.being_deleted


async def test_module_cr_that_is_deleted_meanwhile_loses_its_module_config() -> None:
    async with module() as it:
        await offers_v1(it)
        await it.delete()
        await it.reconcile(changed(operation="DELETE"))
        after = await it.config()
        assert after is None or after.metadata.being_deleted


async def test_version_that_is_served_no_more_is_left_for_the_one_that_is() -> None:
    """The kind moves on under a process that knows it: v1beta1 is dropped."""
    async with module() as it:
        await offers_v1(it)
        await serve(it, "v1beta1", "v1")
        await it.reconcile(ReadScope.EVERYTHING)
        skr = await it.world.skr()
        document = crd("v1", stored="v1")
        await skr.apply(CUSTOM_RESOURCE_DEFINITIONS, document["metadata"]["name"], document, field_manager="module")
        user = {"metadata": {"name": "default"}, "spec": {"value": "of v1"}}
        await skr.apply(INFRASTRUCTURES_V1, "default", user, SKR, field_manager="user")
        await it.reconcile(changed())
        assert "of v1" in await it.text()
        assert INFRASTRUCTURES.version == "v1beta1"


@pytest.mark.parametrize("data", [None, LANDSCAPE])
@pytest.mark.parametrize("goes", ["module cr", "kind"])
async def test_module_config_of_a_former_kind_stays_as_long_as_its_module_cr(
    data: dict[str, Any] | None, goes: str
) -> None:
    async with module() as it:
        await serve_landscapes(it)
        await offers_v1(it, data)
        before = await it.config()
        assert before is not None
        refuses = it.world.cluster("demo").ruled_by(Refuse(lambda each: "/v1beta1/infra" in each.path))
        for rule in (refuses, nullcontext()):
            with rule:
                await it.reconcile(ReadScope.EVERYTHING)
            after = await it.config()
            assert after is not None
            assert (after.metadata.uid, after.metadata.being_deleted) == (before.metadata.uid, False)
        if goes == "kind":
            await (await it.world.skr()).delete(CUSTOM_RESOURCE_DEFINITIONS, crd()["metadata"]["name"])
        else:
            await it.delete()
        await it.reconcile(ReadScope.EVERYTHING)
        after = await it.config()
        assert after is None or after.metadata.being_deleted


async def test_default_module_cr_of_another_kind_gets_the_module_config_of_the_former_one() -> None:
    async with module() as it:
        await serve_landscapes(it)
        await offers_v1(it, LANDSCAPE)
        before = await it.config()
        document = {"metadata": {"name": "default"}, "spec": {"value": "new"}}
        await (await it.world.skr()).create(LANDSCAPES, document, SKR, field_manager="user")
        await it.reconcile(ReadScope.EVERYTHING)
        after = await it.config()
        assert before is not None
        assert after is not None
        assert after.metadata.uid == before.metadata.uid
        assert "kind: Landscape" in after.spec.resource
        assert await it.number_of_configs() == 1
