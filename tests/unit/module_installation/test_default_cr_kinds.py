"""The default Module CR is of a kind that the module brings or its policy names: each test is an attack of its team."""

from typing import Any

import pytest

from kube_runtime import ObjectKey, Resource
from lifecycle_manager_api import names
from tests.kinds import crd_of
from tests.manifest_clusters import Modules
from tests.unit.module_installation.test_controller import config_map
from tests.unit.module_installation.test_policy import set_policy

CRD = crd_of("example.com", "Tea")
TEA = {"apiVersion": "example.com/v1", "kind": "Tea", "metadata": {"name": "default"}, "status": {"state": "Ready"}}
TEAS: Resource[dict[str, Any]] = Resource.dynamic("example.com", "v1", "Tea", "teas", namespaced=True)
OTHER = ObjectKey(names.KCP_NAMESPACE, "demo-aaa")
OF_KUBERNETES = {
    "rbac.authorization.k8s.io/v1": "ClusterRoleBinding",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration",
    "v1": "Secret",
    "apps/v1": "DaemonSet",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "operator.kyma-project.io/v1beta2": "Kyma",
}


async def teas(world: Modules) -> list[str]:
    return [each["metadata"]["name"] for each in (await world.skr.list(TEAS)).items]


@pytest.mark.parametrize(("api_version", "kind"), OF_KUBERNETES.items(), ids=OF_KUBERNETES.values())
async def test_default_cr_of_kubernetes_is_neither_created_nor_asked_for_at_removal(
    world: Modules, api_version: str, kind: str
) -> None:
    """The Manifest is stored already, whatever its template says now."""
    wanted = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "evil"}}
    await world.want([config_map("rose")], resource=wanted)

    await world.reconcile_until(("Error", "ModuleCRRefused"))

    group = api_version.rpartition("/")[0]
    assert f"spec.resource: {kind} of {group or 'the core group'} is a kind of" in (await world.condition()).message
    created = await world.skr.mapper.served(api_version, kind)
    assert created is None or "evil" not in [each["metadata"]["name"] for each in (await world.skr.list(created)).items]
    await world.delete()
    await world.reconcile_until_gone()


async def test_default_cr_of_a_foreign_kind_is_not_created_until_the_policy_names_it(world: Modules) -> None:
    await world.want([CRD], OTHER)
    await world.reconcile_until(("Ready", "ModuleReady"), OTHER)
    await world.want([config_map("rose")], resource=TEA)

    await world.reconcile_until(("Error", "ModuleCRRefused"))

    assert "teas.example.com is not among the objects of the module" in (await world.condition()).message
    assert await teas(world) == []
    rose = {"kind": "ConfigMap", "names": ["*"]}
    named = [{"group": "example.com", "kind": "Tea"}]
    await set_policy(world, {"namespacedResources": {"allow": [rose]}, "moduleCrKinds": named})
    await world.reconcile()
    assert await teas(world) == ["default"]


async def test_default_cr_of_another_module_is_neither_created_nor_deleted(world: Modules) -> None:
    """Its team adds the CRD of the other module to its own objects."""
    await world.want([CRD], OTHER)
    await world.reconcile_until(("Ready", "ModuleReady"), OTHER)
    await world.skr.create(TEAS, {"metadata": {"name": "default"}}, names.SKR_NAMESPACE, field_manager="user")
    await world.want([CRD, config_map("rose")], resource=TEA)

    await world.reconcile_until(("Error", "ModuleCRRefused"))

    assert f"teas.example.com is that of Manifest {OTHER.name}" in (await world.condition()).message
    await world.delete()
    await world.reconcile_until_gone()
    assert await teas(world) == ["default"]
