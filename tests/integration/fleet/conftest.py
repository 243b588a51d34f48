"""A control plane on a real API server, with the rights that the chart ships, and `klm` as an operator runs it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest_asyncio

from kube_runtime import Client, Resource, parse_objects
from kyma_fleet.identities import create_identity
from kyma_local.private_files import write_private
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, names
from lifecycle_manager_api.module_authorization import module_authorization_as_yaml
from tests import builders
from tests.klm import Output, run_klm

NAMESPACES = "\n---\n".join(
    f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"
    for name in (names.KCP_NAMESPACE, names.KCP_LEASE_NAMESPACE)
)


Klm = Callable[..., Awaitable[Output]]


@pytest_asyncio.fixture
async def control_plane(client: Client, installed_crds: None) -> Client:
    await apply_objects(client, f"{NAMESPACES}\n---\n{module_authorization_as_yaml()}")
    return client


async def identity(admin: Client, kubeconfig: Path, folder: Path, role: str) -> Path:
    text = files("kyma_fleet").joinpath("rbac.yaml").read_text()
    roles = [dict(each.document) for each in parse_objects(text) if each.name == role]
    assert roles
    access = await create_identity(admin, kubeconfig, name=role, namespace=names.KCP_NAMESPACE, roles=roles)
    return write_private(folder / role, access)


@pytest_asyncio.fixture
async def viewer(control_plane: Client, kcp: Path, tmp_path: Path) -> AsyncIterator[Klm]:
    """`klm` of somebody who may only read."""
    kubeconfig = await identity(control_plane, kcp, tmp_path, "klm-viewer")
    yield lambda *arguments, **environment: run_klm(kubeconfig, *arguments, **environment)


@pytest_asyncio.fixture
async def operator(control_plane: Client, kcp: Path, tmp_path: Path) -> AsyncIterator[Klm]:
    """`klm` of somebody who may pause and trigger."""
    kubeconfig = await identity(control_plane, kcp, tmp_path, "klm-operator")
    yield lambda *arguments, **environment: run_klm(kubeconfig, *arguments, **environment)


@asynccontextmanager
async def written(admin: Client, *catalog: ModuleTemplate | ModuleReleaseMeta) -> AsyncIterator[None]:
    """Write objects of the catalog, which are there until the block ends."""
    kinds: dict[str, Resource[Any]] = {each.kind: each for each in (MODULE_TEMPLATES, MODULE_RELEASE_METAS)}
    for each in catalog:
        document = builders.as_written(each)
        await admin.apply(kinds[each.KIND], each.metadata.name, document, names.KCP_NAMESPACE, field_manager="test")
    yield
    for each in reversed(catalog):
        await admin.delete(kinds[each.KIND], each.metadata.name, names.KCP_NAMESPACE)


async def put_kyma(admin: Client, name: str, status: dict[str, Any], **metadata: Any) -> None:
    """Write a Kyma with a status, as Lifecycle Manager would have written it."""
    document = {"metadata": {"name": name, **metadata}, "spec": {"channel": "regular"}}
    await admin.apply(KYMAS, name, document, names.KCP_NAMESPACE, field_manager="test")
    await admin.merge_patch(
        KYMAS, name, {"status": status}, names.KCP_NAMESPACE, subresource="status", field_manager="test"
    )
