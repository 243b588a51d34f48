"""A Module Manager may write for its own module, and for no other one."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, Forbidden, KubeError, Resource
from lifecycle_manager.contract.resources import FIELD_MANAGER, MODULE_CONFIGS, NAMESPACES, SYNC_RESOURCES
from lifecycle_manager_api import names
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION
from tests.integration.module_rights.identities import KCP, identity
from tests.waiting import eventually

REFUSED = "may not write for the module istio: this needs a role in kcp-system with the verb manage"


@pytest.fixture(autouse=True)
async def policy_in_force(admin: Client, telemetry: Client) -> None:
    """Wait until the policy is in force: a moment after it was written."""

    async def refused() -> bool:
        try:
            await telemetry.create(
                SYNC_RESOURCES, _sync_resource("probe", "istio"), KCP, field_manager="test", dry_run=True
            )
        except Forbidden as error:
            return MODULE_AUTHORIZATION in str(error)
        return False

    await eventually(refused)


@pytest.fixture
def name() -> str:
    return f"demo-{uuid.uuid4().hex[:8]}"


async def test_manager_writes_for_its_own_module(admin: Client, telemetry: Client, name: str) -> None:
    await _create_config(admin, name, "telemetry")

    await telemetry.apply(SYNC_RESOURCES, name, _sync_resource(name, "telemetry"), KCP, field_manager="mm")
    changed = _sync_resource(name, "telemetry", text="changed")
    await telemetry.apply(SYNC_RESOURCES, name, changed, KCP, field_manager="mm")
    await telemetry.apply(MODULE_CONFIGS, name, _status(name, "Ready"), KCP, field_manager="mm", subresource="status")
    await telemetry.delete(SYNC_RESOURCES, name, KCP)


async def test_manager_does_not_create_for_another_module(telemetry: Client, name: str) -> None:
    with pytest.raises(Forbidden, match=REFUSED):
        await telemetry.apply(SYNC_RESOURCES, name, _sync_resource(name, "istio"), KCP, field_manager="mm")
    with pytest.raises(Forbidden, match=REFUSED):
        await telemetry.create(SYNC_RESOURCES, _sync_resource(name, "istio"), KCP, field_manager="mm")


async def test_manager_does_not_change_or_delete_what_another_module_has(
    admin: Client, telemetry: Client, name: str
) -> None:
    await admin.create(SYNC_RESOURCES, _sync_resource(name, "istio"), KCP, field_manager="istio")
    before = await admin.get(SYNC_RESOURCES, name, KCP)

    for change in (
        {"spec": {"resource": "mine"}},
        {"metadata": {"labels": {names.MODULE_NAME: "telemetry"}}},
        {"metadata": {"finalizers": ["telemetry/mine"]}},
    ):
        with pytest.raises(Forbidden, match=REFUSED):
            await telemetry.merge_patch(SYNC_RESOURCES, name, change, KCP)
    with pytest.raises(Forbidden, match=REFUSED):
        await telemetry.delete(SYNC_RESOURCES, name, KCP)

    assert await admin.get(SYNC_RESOURCES, name, KCP) == before


@pytest.mark.parametrize(("before", "after"), [("istio", "telemetry"), ("telemetry", "istio")])
async def test_manager_does_not_move_an_object_between_modules(
    admin: Client, telemetry: Client, name: str, before: str, after: str
) -> None:
    await admin.create(SYNC_RESOURCES, _sync_resource(name, before), KCP, field_manager="other")

    with pytest.raises(KubeError, match="can't be changed"):  # by the CRD, before the policy is asked
        await telemetry.merge_patch(SYNC_RESOURCES, name, {"spec": {"module": after}}, KCP)


async def test_manager_does_not_write_the_status_of_another_modules_config(
    admin: Client, telemetry: Client, name: str
) -> None:
    await _create_config(admin, name, "istio")

    with pytest.raises(Forbidden, match=REFUSED):
        await telemetry.apply(
            MODULE_CONFIGS, name, _status(name, "Error"), KCP, field_manager="mm", subresource="status"
        )


async def test_manager_of_one_module_has_no_rights_in_other_namespaces(
    admin: Client, telemetry: Client, namespace: str, name: str
) -> None:
    with pytest.raises(Forbidden):
        await telemetry.create(SYNC_RESOURCES, _sync_resource(name, "telemetry"), namespace, field_manager="mm")


async def test_lifecycle_manager_writes_for_every_module(admin: Client, lifecycle_manager: Client, name: str) -> None:
    await admin.create(SYNC_RESOURCES, _sync_resource(name, "istio"), KCP, field_manager="istio")
    document = _config(name, "istio")
    await lifecycle_manager.apply(MODULE_CONFIGS, name, document, KCP, field_manager=FIELD_MANAGER)

    finalizer = {"metadata": {"finalizers": [names.SYNC_RESOURCE_FINALIZER]}}
    await lifecycle_manager.merge_patch(SYNC_RESOURCES, name, finalizer, KCP)
    both: tuple[Resource[Any], ...] = (SYNC_RESOURCES, MODULE_CONFIGS)
    for resource in both:
        status = {**_status(name, "Ready"), "kind": resource.kind}
        await lifecycle_manager.apply(resource, name, status, KCP, field_manager=FIELD_MANAGER, subresource="status")
    await lifecycle_manager.delete(SYNC_RESOURCES, name, KCP)
    await lifecycle_manager.merge_patch(SYNC_RESOURCES, name, {"metadata": {"finalizers": []}}, KCP)
    await lifecycle_manager.delete(MODULE_CONFIGS, name, KCP)
    assert name not in {each.metadata.name for each in (await admin.list(SYNC_RESOURCES, KCP)).items}


@pytest.mark.parametrize("controller", ["generic-garbage-collector", "namespace-controller"])
async def test_controllers_of_kubernetes_delete_for_every_module(
    admin: Client, kcp: Path, tmp_path: Path, name: str, controller: str
) -> None:
    """By their own identities: the controller manager of local clusters is an administrator."""
    await admin.create(SYNC_RESOURCES, _sync_resource(name, "istio"), KCP, field_manager="istio")
    async with identity(admin, kcp, tmp_path, controller, (), namespace="kube-system") as own:
        await own.delete(SYNC_RESOURCES, name, KCP)


async def test_objects_go_with_their_owner_and_with_their_namespace(admin: Client, namespace: str, name: str) -> None:
    config = await _create_config(admin, name, "istio")
    owner = {"apiVersion": MODULE_CONFIGS.api_version, "kind": "ModuleConfig", "name": name, "uid": config.metadata.uid}
    owned = _sync_resource(name, "istio")
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    await admin.create(SYNC_RESOURCES, owned, KCP, field_manager="istio")
    await admin.create(SYNC_RESOURCES, _sync_resource(name, "istio"), namespace, field_manager="istio")

    await admin.delete(MODULE_CONFIGS, name, KCP, propagation="Foreground")
    await admin.delete(NAMESPACES, namespace)

    await asyncio.gather(
        eventually(_none(admin, SYNC_RESOURCES, KCP, name), within=120),
        eventually(_none(admin, SYNC_RESOURCES, namespace, name), within=120),
    )


def _none(client: Client, resource: Resource[Any], namespace: str, name: str) -> Callable[[], Awaitable[bool]]:
    async def none() -> bool:
        return name not in {each.metadata.name for each in (await client.list(resource, namespace)).items}

    return none


async def _create_config(admin: Client, name: str, module: str) -> Any:
    return await admin.create(MODULE_CONFIGS, _config(name, module), KCP, field_manager=FIELD_MANAGER)


def _config(name: str, module: str) -> dict[str, Any]:
    return {**_sync_resource(name, module), "kind": "ModuleConfig"}


def _sync_resource(name: str, module: str, text: str = "") -> dict[str, Any]:
    return {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": name},
        "spec": {"kyma": "demo", "module": module, "resource": text},
    }


def _status(name: str, state: str) -> dict[str, Any]:
    return {
        "apiVersion": MODULE_CONFIGS.api_version,
        "kind": "ModuleConfig",
        "metadata": {"name": name},
        "status": {"state": state},
    }
