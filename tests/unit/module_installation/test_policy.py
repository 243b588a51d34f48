"""A module with a ModulePolicy: its objects are checked before an apply, before prune, and when the policy changes."""

from typing import Any

import pytest

from lifecycle_manager.contract.resources import MODULE_POLICIES
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager_api import ModulePolicySpec, names
from lifecycle_manager_api.documents import plain
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document
from tests.policies import ANYTHING
from tests.unit.module_installation.test_controller import brought, config_map
from tests.waiting import eventually

BINDING: Document = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "admin", "namespace": names.SKR_NAMESPACE},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
}
CONFIG_MAPS: Document = {"namespacedResources": {"allow": [{"kind": "ConfigMap", "names": ["*"]}]}}


async def set_policy(world: Modules, spec: dict[str, Any]) -> None:
    """Write the policy of the module `garden`, and wait until the controller knows it."""
    document = {"metadata": {"name": "garden", "namespace": KEY.namespace}, "spec": spec}
    await world.kcp.apply(MODULE_POLICIES, "garden", document, KEY.namespace, field_manager="test")
    await world.see(MODULE_POLICIES)


async def test_module_with_a_policy_is_refused_as_a_whole(world: Modules) -> None:
    await set_policy(world, CONFIG_MAPS)
    await world.want([config_map("rose"), BINDING])

    await world.reconcile()

    assert await world.state() == ("Error", "PolicyViolation")
    denied = "document 1: RoleBinding kyma-system/admin: spec.namespacedResources.deny: lists RoleBinding"
    assert denied in (await world.condition()).message
    assert await brought(world) == set()

    await set_policy(world, plain(ANYTHING))
    await world.reconcile_until(("Ready", "ModuleReady"))
    assert await brought(world) == {"rose"}


async def test_stricter_policy_refuses_an_installed_module_and_deletes_nothing(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile_until(("Ready", "ModuleReady"))

    await set_policy(world, {"namespacedResources": {"allow": [{"kind": "Secret", "names": ["*"]}]}})

    async def refused() -> bool:
        await world.reconcile()
        return await world.state() == ("Error", "PolicyViolation")

    await eventually(refused)
    assert await brought(world) == {"rose"}


async def test_object_that_the_module_may_not_have_is_not_pruned(world: Modules) -> None:
    secret = {**config_map("thorn"), "kind": "Secret", "data": {}}
    await world.want([config_map("rose"), config_map("tulip"), secret])
    await world.reconcile_until(("Ready", "ModuleReady"))
    await set_policy(world, CONFIG_MAPS)

    await world.want([config_map("rose")])
    await world.reconcile()

    assert await world.state() == ("Error", "PolicyViolation")
    assert "left in the cluster" in (await world.condition()).message
    assert "Secret kyma-system/thorn: spec.namespacedResources.allow" in (await world.condition()).message
    assert await brought(world) == {"rose"}
    manifest = await world.manifest()
    assert manifest is not None
    assert {each.name for each in manifest.status.synced} == {"rose", "thorn"}


@pytest.mark.parametrize("restricted", [True, False])
async def test_option_restricts_modules_without_a_policy(world: Modules, restricted: bool) -> None:
    policies = Policies.watched_by(world.manager)

    rules = policies.of_manifests("garden", restricted=restricted)

    assert (rules.spec if rules is not None else None) == (ModulePolicySpec() if restricted else None)
