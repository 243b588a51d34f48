"""A client with the rights of the Lifecycle Manager's roles in KCP, and no others."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from kube_runtime import Client, ClientOptions, load_documents, load_yaml
from kyma_fleet.identities import create_identity
from lifecycle_manager_api import names


@asynccontextmanager
async def restricted(client: Client, kubeconfig: Path, *roles: str) -> AsyncGenerator[Client, None]:
    """Create the roles in some files of `lifecycle_manager.rbac`, bind them, and yield a client that has them.

    Roles for namespaces are created, without those for Leases.
    """
    wanted = [each for name in roles for each in _roles_in(name)]
    access = await create_identity(
        client, kubeconfig, name=names.LIFECYCLE_MANAGER, namespace=names.KCP_NAMESPACE, roles=wanted
    )
    async with await Client.from_kubeconfig(load_yaml(access), options=ClientOptions(qps=0)) as ours:
        yield ours


def _roles_in(name: str) -> list[dict[str, Any]]:
    text = files("lifecycle_manager.rbac").joinpath(f"{name}.yaml").read_text()
    roles = [each for each in load_documents(text) if each["kind"] == "Role"]
    return [each for each in roles if not each["metadata"]["name"].endswith("-leases")]
