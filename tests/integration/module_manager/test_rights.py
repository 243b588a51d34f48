"""The rights of a manager with the role of the SDK."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kube_runtime import Client, Forbidden, Resource
from kyma_module_manager import ModuleManager, module_manager
from kyma_module_manager.testing import ManagerHarness
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS, SECRETS

KYMAS: Resource[dict[str, Any]] = Resource.dynamic(
    "operator.kyma-project.io", "v1beta2", "Kyma", "kymas", namespaced=True
)
NAMESPACE = names.KCP_NAMESPACE


@module_manager("rights", crd=dict)
def nothing(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return no objects."""
    return []


@pytest.fixture
async def harness(
    managed: Callable[[ModuleManager[Any]], AbstractAsyncContextManager[ManagerHarness]],
) -> AsyncIterator[ManagerHarness]:
    async with managed(nothing) as harness:
        await harness.write_module_cr({"metadata": {"name": "default"}})
        await harness.sync_resource()
        yield harness


async def test_module_config_is_read_only(harness: ManagerHarness, own: Client) -> None:
    config = await harness.client.get(MODULE_CONFIGS, harness.name, NAMESPACE)

    with pytest.raises(Forbidden):
        await own.merge_patch(MODULE_CONFIGS, harness.name, {"spec": {"resource": "mine"}}, NAMESPACE)
    with pytest.raises(Forbidden):
        await own.apply(
            MODULE_CONFIGS, "another", _renamed(config, "another"), NAMESPACE, field_manager="module-manager-rights"
        )
    with pytest.raises(Forbidden):
        await own.delete(MODULE_CONFIGS, harness.name, NAMESPACE)
    assert (await harness.client.get(MODULE_CONFIGS, harness.name, NAMESPACE)).spec == config.spec


async def test_only_the_status_of_a_module_config_can_be_written(harness: ManagerHarness, own: Client) -> None:
    before = await harness.client.get(MODULE_CONFIGS, harness.name, NAMESPACE)
    document = {
        "apiVersion": MODULE_CONFIGS.api_version,
        "kind": MODULE_CONFIGS.kind,
        "metadata": {"name": harness.name, "namespace": NAMESPACE, "labels": {"sneaked": "in"}},
        "spec": {"kyma": before.spec.kyma, "module": before.spec.module, "resource": "mine"},
        "status": {"state": "Warning"},
    }

    await own.apply(MODULE_CONFIGS, harness.name, document, NAMESPACE, field_manager="test", subresource="status")

    after = await harness.client.get(MODULE_CONFIGS, harness.name, NAMESPACE)
    assert after.spec == before.spec
    assert "sneaked" not in after.metadata.labels


async def test_status_of_a_sync_resource_cannot_be_written(harness: ManagerHarness, own: Client) -> None:
    with pytest.raises(Forbidden):
        await own.merge_patch(
            SYNC_RESOURCES, harness.name, {"status": {"state": "Ready"}}, NAMESPACE, subresource="status"
        )


@pytest.mark.parametrize("resource", [SECRETS, CONFIG_MAPS, KYMAS], ids=lambda each: each.plural)
@pytest.mark.usefixtures("harness")
async def test_other_kinds_cannot_be_read(own: Client, resource: Resource[dict[str, Any]]) -> None:
    with pytest.raises(Forbidden):
        await own.list(resource, NAMESPACE)


@pytest.mark.usefixtures("harness")
async def test_other_namespaces_cannot_be_read(own: Client) -> None:
    with pytest.raises(Forbidden):
        await own.list(MODULE_CONFIGS, "default")


def _renamed(config: Any, name: str) -> dict[str, Any]:
    return {
        "apiVersion": MODULE_CONFIGS.api_version,
        "kind": MODULE_CONFIGS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"kyma": config.spec.kyma, "module": config.spec.module, "resource": config.spec.resource},
    }
