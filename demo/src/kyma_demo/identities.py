"""Identities with only the rights they need: a ServiceAccount, its roles, and a kubeconfig with its token.

An administrator of any cluster does the same, so the demo also works on existing clusters.
"""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kube_runtime import Client, Resource, dump_yaml, load_yaml

FIELD_MANAGER = "klm-demo"
TOKEN_SECONDS = 24 * 3600

SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)
ROLE_GROUP = "rbac.authorization.k8s.io"


async def create_identity(
    admin: Client, admin_kubeconfig: Path, *, name: str, namespace: str, roles: Iterable[dict[str, Any]]
) -> str:
    """Create a ServiceAccount with these roles; return a kubeconfig with its token.

    Raises KubeError if the administrator lacks the rights.
    """
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
    await admin.apply(SERVICE_ACCOUNTS, name, account, namespace, field_manager=FIELD_MANAGER)
    for role in roles:
        await _bind(admin, role, name, namespace)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    issued = await admin.create_subresource(SERVICE_ACCOUNTS, name, namespace, "token", request)
    return _kubeconfig_with_token(admin_kubeconfig, name, issued["status"]["token"])


async def _bind(admin: Client, role: dict[str, Any], account: str, account_namespace: str) -> None:
    """Apply a Role or ClusterRole and bind it to a ServiceAccount."""
    kind, metadata = role["kind"], role["metadata"]
    role_namespace = metadata.get("namespace")
    binding: dict[str, Any] = {
        "apiVersion": f"{ROLE_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": f"{account}-{metadata['name']}"}
        | ({"namespace": role_namespace} if role_namespace else {}),
        "roleRef": {"apiGroup": ROLE_GROUP, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }
    for document in (role, binding):
        resource = await admin.mapper.resource(document["apiVersion"], document["kind"])
        await admin.apply(resource, document["metadata"]["name"], document, role_namespace, field_manager=FIELD_MANAGER)


def _kubeconfig_with_token(admin_kubeconfig: Path, user: str, token: str) -> str:
    """Return a kubeconfig for the administrator's cluster with a token, and without the administrator's credentials."""
    admin = load_yaml(admin_kubeconfig.read_text())
    context = next(entry for entry in admin["contexts"] if entry["name"] == admin["current-context"])["context"]
    cluster = next(entry for entry in admin["clusters"] if entry["name"] == context["cluster"])
    return dump_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": user,
            "contexts": [{"name": user, "context": {"cluster": cluster["name"], "user": user}}],
            "clusters": [_with_inline_ca(cluster)],
            "users": [{"name": user, "user": {"token": token}}],
        }
    )


def _with_inline_ca(cluster: dict[str, Any]) -> dict[str, Any]:
    """Return the cluster with its CA inline: a path would be wrong where this kubeconfig is used."""
    inner = dict(cluster["cluster"])
    if path := inner.pop("certificate-authority", None):
        inner["certificate-authority-data"] = base64.b64encode(Path(path).read_bytes()).decode()
    return {"name": cluster["name"], "cluster": inner}
