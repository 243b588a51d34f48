"""A control plane with what the charts ship, and its identities."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kube_runtime import Client, dump_yaml
from kyma_module_manager.rights import lease_namespace_of, roles_of
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from lifecycle_manager_api.module_authorization import module_authorization_as_yaml
from tests.integration.module_rights.identities import (
    KCP,
    LIFECYCLE_MANAGER,
    identity,
    roles_of_lifecycle_manager,
)

NAMESPACES = (KCP, names.KCP_LEASE_NAMESPACE, *map(lease_namespace_of, ("telemetry", "istio")))


@pytest_asyncio.fixture
async def admin(client: Client, installed_crds: None) -> Client:
    """The administrator of a control plane that is prepared for Lifecycle Manager and two modules."""
    documents = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    await apply_objects(client, "\n---\n".join(map(dump_yaml, documents)))
    await apply_objects(client, module_authorization_as_yaml())
    return client


@pytest_asyncio.fixture
async def lifecycle_manager(admin: Client, kcp: Path, tmp_path: Path) -> AsyncIterator[Client]:
    async with identity(admin, kcp, tmp_path, LIFECYCLE_MANAGER, roles_of_lifecycle_manager()) as client:
        yield client


@pytest_asyncio.fixture
async def telemetry(admin: Client, kcp: Path, tmp_path: Path) -> AsyncIterator[Client]:
    """A client with the rights of the Module Manager of `telemetry`."""
    async with identity(admin, kcp, tmp_path, "telemetry-manager", roles_of("telemetry")) as client:
        yield client
