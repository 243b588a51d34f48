"""Lifecycle Manager is not ready while the policy that keeps modules apart is not in force."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kube_runtime import Client, Manager, ManagerOptions
from lifecycle_manager import module_authorization
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager.module_authorization import ModuleAuthorizationSettings, checking
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION, module_authorization_as_yaml
from tests.waiting import eventually

METRIC = "lifecycle_mgr_module_policy_in_force"


@asynccontextmanager
async def running(client: Client, settings: ModuleAuthorizationSettings) -> AsyncIterator[int]:
    """Run a Manager with nothing but the check, and yield the port of its probes."""
    manager = Manager(client, ManagerOptions(probes=[("127.0.0.1", 0)]), namespace=names.KCP_NAMESPACE)
    module_authorization.setup(manager, client, settings)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(stopping))
        try:
            await eventually(lambda: manager.working)
            yield manager.probe_ports[0]
        finally:
            stopping.set()


async def answer(port: int, path: str) -> str:
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.get(f"http://127.0.0.1:{port}/{path}")).text


async def says(port: int, text: str) -> None:
    async def is_there() -> bool:
        return text in await answer(port, "readyz")

    await eventually(is_there, what=f"readiness says {text!r}")


@pytest.fixture(autouse=True)
async def restored(admin: Client) -> AsyncIterator[None]:
    """Apply the policy again after a test: others share the cluster."""
    yield
    await apply_objects(admin, module_authorization_as_yaml())


async def test_readiness_names_what_is_wrong_until_it_is_right_again(admin: Client, lifecycle_manager: Client) -> None:
    async with running(lifecycle_manager, ModuleAuthorizationSettings()) as port:
        await says(port, "ok")
        assert f"{METRIC} 1.0" in await answer(port, "metrics")

        await admin.delete(checking.BINDINGS, MODULE_AUTHORIZATION)
        await says(port, f"not ready: module authorization (ValidatingAdmissionPolicyBinding {MODULE_AUTHORIZATION} is")
        assert f"{METRIC} 0.0" in await answer(port, "metrics")

        await apply_objects(admin, module_authorization_as_yaml())
        await says(port, "ok")

        ignore: dict[str, Any] = {"spec": {"failurePolicy": "Ignore"}}
        await admin.merge_patch(checking.POLICIES, MODULE_AUTHORIZATION, ignore)
        await says(port, "differs from the shipped one in spec.failurePolicy")


async def test_policy_that_is_there_and_not_applied_is_noticed(admin: Client) -> None:
    """The same as one that the API server does not apply: an administrator may manage modules everywhere."""
    async with running(admin, ModuleAuthorizationSettings()) as port:
        await says(port, "a SyncResource in kcp-system-leases was accepted in a dry run")
    assert not (await admin.list(SYNC_RESOURCES, names.KCP_LEASE_NAMESPACE)).items


async def test_missing_right_is_the_reason(telemetry: Client) -> None:
    async with running(telemetry, ModuleAuthorizationSettings()) as port:
        await says(port, "module authorization (validatingadmissionpolicies.admissionregistration.k8s.io")


async def test_missing_namespace_is_the_reason(lifecycle_manager: Client) -> None:
    async with running(lifecycle_manager, ModuleAuthorizationSettings(namespace="nowhere")) as port:
        await says(port, "the dry run of a SyncResource in nowhere was not refused by the policy")


async def test_lifecycle_manager_runs_without_the_policy_where_that_is_allowed(
    admin: Client, lifecycle_manager: Client
) -> None:
    await admin.delete(checking.BINDINGS, MODULE_AUTHORIZATION)
    async with running(lifecycle_manager, ModuleAuthorizationSettings(is_optional=True)) as port:
        await says(port, "ok")
        await eventually(lambda: _has(port, f"{METRIC} 0.0"))


async def _has(port: int, text: str) -> bool:
    return text in await answer(port, "metrics")
