"""A client with the rights of the Lifecycle Manager's roles in KCP, and no others."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import msgspec

from kube_runtime import Client, ClientOptions, load_documents
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names

KCP, USER = names.KCP_NAMESPACE, names.LIFECYCLE_MANAGER
ACCOUNT = f"{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {USER}, namespace: {KCP}}}}}"


@asynccontextmanager
async def restricted(client: Client, administrator: str, *roles: str) -> AsyncGenerator[Client, None]:
    """Create the roles in some files of `lifecycle_manager.rbac`, bind them, and yield a client that has them.

    Roles for namespaces are created, without those for Leases.
    """
    documents = [each for name in roles for each in _roles_in(name)]
    wanted = [each for role in documents for each in (role, _binding_of(role))]
    await apply_objects(client, "\n---\n".join((ACCOUNT, *(msgspec.json.encode(each).decode() for each in wanted))))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    target = f"/api/v1/namespaces/{KCP}/serviceaccounts/{USER}/token"
    answer = msgspec.json.decode(await client.raw("POST", target, body=msgspec.json.encode(request)))
    kubeconfig: dict[str, Any] = next(iter(load_documents(administrator)))
    for each in kubeconfig["users"]:
        each["user"] = {"token": answer["status"]["token"]}
    async with await Client.from_kubeconfig(kubeconfig, options=ClientOptions(qps=0)) as ours:
        yield ours


def _roles_in(name: str) -> list[dict[str, Any]]:
    text = files("lifecycle_manager.rbac").joinpath(f"{name}.yaml").read_text()
    roles = [each for each in load_documents(text) if each["kind"] == "Role"]
    return [each for each in roles if not each["metadata"]["name"].endswith("-leases")]


def _binding_of(role: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": role["metadata"]["name"], "namespace": role["metadata"]["namespace"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": USER, "namespace": KCP}],
    }
