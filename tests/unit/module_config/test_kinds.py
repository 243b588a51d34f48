"""Module CRs are of kinds that the module brings or its policy names: nothing else is read out of a cluster.

Each test is an attack of who may write a ModuleTemplate.
"""

from typing import Any

import msgspec
import pytest

from kube_runtime import Resource
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
)
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, ReadScope, Trace
from lifecycle_manager.module_catalog.module_kinds import TemplateUnreadable
from lifecycle_manager_api import ModuleConfig, find
from tests import builders
from tests.unit.module_config.test_controller import GROUP, MODULE, NAME, Module, module
from tests.world import KCP, SKR

SECRETS_IN_SKR: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Secret", "secrets", namespaced=True)
SECRET = {"metadata": {"name": "default"}, "data": {"key": "cHJpdmF0ZQ=="}}
OF_KUBERNETES = [
    {"apiVersion": "v1", "kind": "Secret"},
    {"apiVersion": "/v1", "kind": "Secret"},
    {"apiVersion": "v1", "kind": "secret"},
    {"apiVersion": "apps/v1", "kind": "Deployment"},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"},
    {"apiVersion": "example.com/../../api/v1", "kind": "Secret"},
    {"apiVersion": "operator.kyma-project.io/v1beta2", "kind": "Kyma"},
]


async def configs(it: Module) -> list[ModuleConfig]:
    return list((await it.world.kcp.list(MODULE_CONFIGS, KCP)).items)


async def write_secret(it: Module) -> None:
    await (await it.world.skr()).apply(SECRETS_IN_SKR, "default", SECRET, SKR, field_manager="user")


async def test_object_of_kubernetes_is_never_read() -> None:
    """The template is stored although admission refuses it."""
    async with module() as it:
        await write_secret(it)
        for kind in OF_KUBERNETES:
            await it.world.offer(builders.template(installs=True, data=kind | {"metadata": {"name": "default"}}))
            before = it.world.requests
            reference = ObjectReference(kind["apiVersion"].rpartition("/")[0], kind["kind"], SKR, "default")
            announced = ObjectChanged("demo", reference, "UPDATE", "", "", Trace())
            with pytest.raises(TemplateUnreadable, match=r"spec.data: .* cannot be that of a Module CR"):
                await it.reconcile(ReadScope.EVERYTHING, announced)
            assert await configs(it) == []
            assert not it.world.cluster("demo").requests(lambda it: it.resource == "secrets", since=before)


async def test_template_with_an_object_of_kubernetes_is_offered_to_nobody() -> None:
    async with module(data=OF_KUBERNETES[0] | {"metadata": {"name": "default"}}) as it:
        (status,) = (await it.world.kcp.get(KYMAS, "demo", KCP)).status.modules
        assert (str(status.state), status.template) == ("Error", None)
        assert "Secret of the core group is a kind of Kubernetes" in status.message
        assert await it.world.manifests() == {}


async def test_module_config_with_a_secret_is_deleted() -> None:
    """It was written by a version that read any kind."""
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        (config,) = await configs(it)
        assert config.spec.resource_ref is not None
        reference = msgspec.structs.replace(config.spec.resource_ref, api_version="v1", kind="Secret", name="leaked")
        spec = msgspec.structs.replace(config.spec, resource_ref=reference, resource="key: cHJpdmF0ZQ==")
        metadata = msgspec.structs.replace(config.metadata, name=f"{NAME}-leaked", resource_version="", uid="")
        await it.world.kcp.create(MODULE_CONFIGS, ModuleConfig(metadata=metadata, spec=spec), KCP, field_manager="old")
        await it.reconcile(ReadScope.EVERYTHING)
        assert [each.metadata.name for each in await configs(it)] == [NAME]


async def test_kind_that_neither_the_module_nor_its_policy_has_is_not_read() -> None:
    """Such as a kind of the cluster's users."""
    async with module(is_named=False) as it:
        await it.write("one")
        before = it.world.requests
        with pytest.raises(TemplateUnreadable, match="is not among the objects of module cloud-resources"):
            await it.reconcile()
        assert await configs(it) == []
        assert it.requests(before) == []


async def test_kind_whose_crd_is_among_the_objects_of_the_module_is_read() -> None:
    async with module(is_named=False) as it:
        await it.write("one")
        await brings(it, "demo-cloud-resources")
        await it.reconcile(ReadScope.EVERYTHING)
        assert "one" in await it.text()


async def test_kind_of_another_module_is_not_read() -> None:
    """The CRD is among the objects of both: it is that of the module that was there before."""
    async with module(introduced=False, is_named=False) as it:
        other = builders.manifest("aaa", "1.0.0", mandatory=True)
        await it.world.create(other)
        await it.world.introduced()
        await it.write("one")
        await brings(it, other.metadata.name)
        await brings(it, "demo-cloud-resources")
        with pytest.raises(TemplateUnreadable, match="is that of module aaa"):
            await it.reconcile()
        assert await configs(it) == []


async def test_refusal_says_what_to_do() -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        await it.world.kcp.merge_patch(
            MODULE_POLICIES, MODULE, {"spec": {"moduleCrKinds": None}}, KCP, field_manager="operator"
        )
        with pytest.raises(TemplateUnreadable):
            await it.reconcile(ReadScope.EVERYTHING)
        (config,) = await configs(it)
        condition = find(config.status.conditions, "Synced")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "TemplateUnreadable")
        assert f"name Infrastructure of {GROUP} in spec.moduleCrKinds of its ModulePolicy" in condition.message
        assert "one" in config.spec.resource, "what was read before stays"


async def brings(it: Module, manifest: str) -> None:
    """Have a Manifest name the CRD among its objects."""
    crd = CUSTOM_RESOURCE_DEFINITIONS
    entry = {"group": crd.group, "version": "v1", "kind": crd.kind, "namespace": "", "name": f"infrastructures.{GROUP}"}
    await it.world.kcp.merge_patch(
        MANIFESTS, manifest, {"status": {"synced": [entry]}}, KCP, subresource="status", field_manager="lm"
    )
