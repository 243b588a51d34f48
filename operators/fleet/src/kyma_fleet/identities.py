"""Identities with only the rights they need: a ServiceAccount, its roles, and a kubeconfig with its token.

`klm join` gives Lifecycle Manager such an identity in a cluster; the demo and the tests do the same for each program.
"""

import base64
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from kube_runtime import Client, KubeconfigInvalid, NotFound, Resource, dump_yaml
from kube_runtime.client.kubeconfig import entries_by_name, kubeconfig_document
from kyma_fleet.problems import Problem

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


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the objects of an identity."""

    resource: Resource[dict[str, Any]]
    document: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        namespace: str | None = self.document["metadata"].get("namespace")
        return namespace

    def __str__(self) -> str:
        return f"{self.resource.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


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
    undo: AsyncExitStack | None = None,
) -> str:
    """Create a ServiceAccount with these roles; return a kubeconfig with its token.

    `server` is the address of the API server where it is another one than in the administrator's kubeconfig. What was
    created is deleted again where a later part fails, and with `undo` by its end. Raises KubeError if the administrator
    lacks the rights, KubeconfigInvalid, and Problem where an object of such a name is not of an identity.
    """
    kubeconfig = kubeconfig_for(admin_kubeconfig, name, context=context, server=server)
    parts = tuple(_parts(name, namespace, roles))
    new = [each for each in parts if not await _is_there(admin, each)]
    for each in parts:
        if not each.resource.kind.endswith("Binding"):  # that of a role which is not there yet may be refused
            await _apply(admin, each, dry_run=True)
    async with AsyncExitStack() as created:
        for each in parts:
            written = await _apply(admin, each)
            if each in new:
                created.push_async_callback(
                    _delete, admin, each.resource, each.name, each.namespace, written["metadata"]["uid"]
                )
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(lifetime.total_seconds())},
        }
        issued = await admin.create_subresource(SERVICE_ACCOUNTS, name, namespace, "token", request)
        kept = created.pop_all()
    if undo is not None:
        undo.push_async_callback(kept.aclose)
    return kubeconfig(issued["status"]["token"])


def kubeconfig_for(
    admin_kubeconfig: Path, user: str, *, context: str | None = None, server: str = ""
) -> Callable[[str], str]:
    """Return what makes a kubeconfig of a token, for the cluster of an administrator. Raises KubeconfigInvalid."""
    cluster = _cluster_in(admin_kubeconfig, context)
    return partial(_kubeconfig, cluster | ({"server": server} if server else {}), user)


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
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for each in (await admin.list(_resource(kind), label_selector=_selector())).items:
            if each.get("subjects") == [subject]:
                yield kind, each


async def _removed(admin: Client, resource: Resource[Any], name: str, namespace: str | None) -> bool:
    """Delete an object of an identity; tell whether there was one."""
    try:
        found = await admin.get(resource, name, namespace)
        if _is_marked(found):
            await admin.delete(resource, name, namespace, uid=found["metadata"]["uid"])
            return True
    except NotFound:
        pass
    return False


def _parts(name: str, namespace: str, roles: Iterable[Mapping[str, Any]]) -> Iterator[_Part]:
    """Yield a ServiceAccount, and each Role or ClusterRole with its binding, all of them marked."""
    yield _Part(SERVICE_ACCOUNTS, _marked({"metadata": {"name": name, "namespace": namespace}}))
    for role in roles:
        kind, metadata = role["kind"], role["metadata"]
        where = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
        yield _Part(_resource(kind), _marked(role))
        binding = {
            "apiVersion": f"{ROLE_GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": f"{name}-{metadata['name']}"} | where,
            "roleRef": {"apiGroup": ROLE_GROUP, "kind": kind, "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        yield _Part(_resource(f"{kind}Binding"), _marked(binding))


def _marked(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **MARK}}}


async def _is_there(admin: Client, part: _Part) -> bool:
    """Tell whether a part exists. Raises Problem where it is not of an identity."""
    try:
        found = await admin.get(part.resource, part.name, part.namespace)
    except NotFound:
        return False
    if not _is_marked(found):
        raise Problem(f"{part} is there already, and not of klm join: rename or delete it first")
    return True


async def _apply(admin: Client, part: _Part, *, dry_run: bool = False) -> dict[str, Any]:
    return await admin.apply(
        part.resource, part.name, part.document, part.namespace, field_manager=FIELD_MANAGER, dry_run=dry_run
    )


async def _delete(admin: Client, resource: Resource[Any], name: str, namespace: str | None, uid: str) -> None:
    with suppress(NotFound):
        await admin.delete(resource, name, namespace, uid=uid)


def _is_marked(found: Mapping[str, Any]) -> bool:
    return MARK.items() <= (found["metadata"].get("labels") or {}).items()


def _resource(kind: str) -> Resource[dict[str, Any]]:
    return Resource.dynamic(ROLE_GROUP, "v1", kind, ROLE_KINDS[kind], namespaced=not kind.startswith("Cluster"))


def _selector() -> str:
    return ",".join(f"{label}={value}" for label, value in MARK.items())


def _cluster_in(kubeconfig: Path, context: str | None) -> dict[str, Any]:
    """Return the cluster of a context with its CA inline: a path would be wrong where the result is used."""
    try:
        document = kubeconfig_document(kubeconfig.read_bytes())
        contexts, clusters = (entries_by_name(document, key) for key in ("contexts", "clusters"))
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
