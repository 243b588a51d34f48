"""Identities with only the rights they need: a ServiceAccount, its roles, and a kubeconfig with its token.

`klm join` gives Lifecycle Manager such an identity in a cluster; the demo and the tests do the same for each program.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from kube_runtime import Client, KubeconfigInvalid, NotFound, Resource, dump_yaml, load_yaml

FIELD_MANAGER = "klm"
MARK = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
"""The label of what belongs to an identity, by which `remove_identity` finds it."""
TOKEN_LIFETIME = timedelta(hours=24)

SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)
ROLE_GROUP = "rbac.authorization.k8s.io"
ROLE_KINDS = {
    "ClusterRoleBinding": "clusterrolebindings",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "Role": "roles",
}


async def create_identity(
    admin: Client,
    admin_kubeconfig: Path,
    *,
    name: str,
    namespace: str,
    roles: Iterable[Mapping[str, Any]],
    lifetime: timedelta = TOKEN_LIFETIME,
    context: str | None = None,
    server: str = "",
) -> str:
    """Create a ServiceAccount with these roles; return a kubeconfig with its token.

    `server` is the address of the API server where it is another one than in the administrator's kubeconfig. Raises
    KubeError if the administrator lacks the rights, and KubeconfigInvalid.
    """
    account = {"metadata": {"name": name, "namespace": namespace, "labels": MARK}}
    await admin.apply(SERVICE_ACCOUNTS, name, account, namespace, field_manager=FIELD_MANAGER)
    for role in roles:
        await _bind(admin, role, name, namespace)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(lifetime.total_seconds())},
    }
    issued = await admin.create_subresource(SERVICE_ACCOUNTS, name, namespace, "token", request)
    cluster = _cluster_in(admin_kubeconfig, context)
    return _kubeconfig(cluster | ({"server": server} if server else {}), name, issued["status"]["token"])


async def remove_identity(admin: Client, *, name: str, namespace: str) -> tuple[str, ...]:
    """Delete a ServiceAccount with its bindings, and their roles if they were created with it; return their names.

    Raises KubeError.
    """
    removed = []
    async for kind, binding in _bindings_of(admin, name, namespace):
        where = binding["metadata"].get("namespace")
        named = binding["roleRef"]
        for each, found in ((kind, binding["metadata"]["name"]), (named["kind"], named["name"])):
            if await _removed(admin, _resource(each), found, where if not each.startswith("Cluster") else None):
                removed.append(f"{each} {found}")
    if await _removed(admin, SERVICE_ACCOUNTS, name, namespace):
        removed.append(f"ServiceAccount {namespace}/{name}")
    return tuple(removed)


async def _bindings_of(admin: Client, name: str, namespace: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    for kind, where in (("ClusterRoleBinding", None), ("RoleBinding", namespace)):
        for each in (await admin.list(_resource(kind), where, label_selector=_selector())).items:
            subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
            if each.get("subjects") == [subject]:
                yield kind, each


async def _removed(admin: Client, resource: Resource[Any], name: str, namespace: str | None) -> bool:
    """Delete an object of an identity; tell whether there was one."""
    try:
        found = await admin.get(resource, name, namespace)
        if MARK.items() <= (found["metadata"].get("labels") or {}).items():
            await admin.delete(resource, name, namespace, uid=found["metadata"]["uid"])
            return True
    except NotFound:
        pass
    return False


async def _bind(admin: Client, role: Mapping[str, Any], account: str, account_namespace: str) -> None:
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
        labels = MARK | (document["metadata"].get("labels") or {})
        marked = {**document, "metadata": {**document["metadata"], "labels": labels}}
        name = document["metadata"]["name"]
        await admin.apply(_resource(document["kind"]), name, marked, role_namespace, field_manager=FIELD_MANAGER)


def _resource(kind: str) -> Resource[dict[str, Any]]:
    return Resource.dynamic(ROLE_GROUP, "v1", kind, ROLE_KINDS[kind], namespaced=not kind.startswith("Cluster"))


def _selector() -> str:
    return ",".join(f"{label}={value}" for label, value in MARK.items())


def _cluster_in(kubeconfig: Path, context: str | None) -> dict[str, Any]:
    """Return the cluster of a context with its CA inline: a path would be wrong where the result is used."""
    try:
        document = load_yaml(kubeconfig.read_text())
        contexts, clusters = ({each["name"]: each for each in document[key]} for key in ("contexts", "clusters"))
        chosen = contexts[context or document["current-context"]]["context"]
        cluster = dict(clusters[chosen["cluster"]]["cluster"])
    except (LookupError, TypeError) as error:
        raise KubeconfigInvalid(f"{kubeconfig} names no cluster in its context") from error
    if path := cluster.pop("certificate-authority", None):
        content = (kubeconfig.parent / path).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(content).decode()
    return cluster


def _kubeconfig(cluster: Mapping[str, Any], user: str, token: str) -> str:
    """Return a kubeconfig for a cluster with a token, and without the administrator's credentials."""
    return dump_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": user,
            "contexts": [{"name": user, "context": {"cluster": "cluster", "user": user}}],
            "clusters": [{"name": "cluster", "cluster": dict(cluster)}],
            "users": [{"name": user, "user": {"token": token}}],
        }
    )
