"""The identities of the control plane on a real API server, each a ServiceAccount with the roles that are shipped."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from kube_runtime import Client, ClientOptions, parse_objects
from kyma_fleet.identities import create_identity
from kyma_local.private_files import write_private
from lifecycle_manager_api import names

KCP = names.KCP_NAMESPACE
LIFECYCLE_MANAGER = "lifecycle-manager"


def roles_of_lifecycle_manager() -> list[dict[str, Any]]:
    return _documents(files("lifecycle_manager.rbac").joinpath("kcp.yaml").read_text())


def page_roles() -> list[dict[str, Any]]:
    return _documents(files("lifecycle_manager.rbac").joinpath("kcp-page.yaml").read_text())


@asynccontextmanager
async def identity(
    admin: Client, kubeconfig: Path, folder: Path, name: str, roles: Iterable[dict[str, Any]], namespace: str = KCP
) -> AsyncIterator[Client]:
    """A client with the token of a ServiceAccount that has some roles."""
    text = await create_identity(admin, kubeconfig, name=name, namespace=namespace, roles=roles)
    file = write_private(folder / f"{name}.kubeconfig", text)
    async with await Client.from_kubeconfig(file, options=ClientOptions(qps=0, timeout_seconds=60)) as client:
        yield client


def _documents(text: str) -> list[dict[str, Any]]:
    return [dict(each.document) for each in parse_objects(text)]
