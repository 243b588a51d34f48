"""What a Namespace or a CustomResourceDefinition contains, and would take along when it is deleted.

Nothing is contained only where the server has said so of every kind: an error is raised, and a kind that may not be
listed is named as if it had objects.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import msgspec

from kube_runtime.apply.objects import Identity, InventoryEntry
from kube_runtime.apply.order import CRD
from kube_runtime.apply.readiness import condition_of
from kube_runtime.client.client import Client
from kube_runtime.client.discovery import ServedGroup
from kube_runtime.exceptions import ClusterUnreachable, Forbidden, KubeError, ResponseInvalid
from kube_runtime.resource import JsonObject, Resource

T = TypeVar("T")
NAMESPACE = ("", "Namespace")
MAX_NAMED = 9
"""With the number of the others these are as many as a message lists."""
MAX_NAME_LENGTH = 600
MAX_KINDS = 10_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_RECORDS = frozenset({("", "Event"), ("events.k8s.io", "Event"), ("", "Endpoints"), ("coordination.k8s.io", "Lease")})
"""Kinds that programs write about other objects and for themselves, without an owner."""
_OF_EVERY_NAMESPACE = frozenset(
    {
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "istio-ca-root-cert"),
        ("ConfigMap", "openshift-service-ca.crt"),
        ("ServiceAccount", "default"),
    }
)
_ACCOUNT_OF_TOKEN = "kubernetes.io/service-account.name"  # noqa: S105 - an annotation


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    annotations: dict[str, str] | None = None
    owner_references: list[Any] | None = None
    deletion_timestamp: str | None = None


class _Contained(msgspec.Struct):
    metadata: _Metadata


@dataclass(slots=True)
class FirstNames:
    """The first names of many, and how many there are: a cluster may have any number, of any length."""

    names: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < MAX_NAMED:
            self.names.append(name[:MAX_NAME_LENGTH])


LeftOut: TypeAlias = Callable[[Resource[_Contained], _Metadata], bool]
"""Tells whether an object does not count."""


async def objects_of_crd(client: Client, crd: JsonObject, own: Collection[Identity]) -> tuple[str, ...]:
    """Name the objects of the kind that a CRD defines, but for one's own, also those that are being deleted.

    Whoever acts on their finalizers has to stay until they are gone. Raises KubeError, but never NotFound.
    """
    if condition_of(crd, "Established").get("status") != "True":
        return ()  # it was never served
    if not any(each.get("served") for each in crd["spec"]["versions"]):
        return ("objects that can't be listed, as none of its versions is served",)
    return await _of_kinds(
        client,
        [replace(kind_in(crd), type=_Contained)],
        lambda resource, metadata: (
            _identity(resource, metadata) in own or goes_with(own, metadata.namespace, metadata.owner_references)
        ),
    )


def kind_in(crd: JsonObject) -> Resource[Any]:
    """Return the kind that a CRD defines, in a version that is served if one is.

    If it can be in that which objects are stored in: it needs no conversion, by a webhook that may be gone.
    """
    spec = crd["spec"]
    names, is_namespaced = spec["names"], spec["scope"] == "Namespaced"
    version = min(spec["versions"], key=lambda each: (not each.get("served"), not each.get("storage")))
    return Resource.dynamic(spec["group"], version["name"], names["kind"], names["plural"], is_namespaced)


def goes_with(own: Collection[Identity], namespace: str, owner_references: Iterable[Any] | None) -> bool:
    """Tell whether an object in a namespace has owners, and all of them are these: it is deleted with them."""
    references = [each for each in owner_references or () if isinstance(each, Mapping)]
    named = [
        (str(each.get("apiVersion")).rpartition("/")[0], str(each.get("kind")), str(each.get("name")))
        for each in references
    ]
    return bool(named) and all(
        not {(group, kind, where, name) for where in ("", namespace)}.isdisjoint(own) for group, kind, name in named
    )


async def contents_of(client: Client, entry: InventoryEntry, live: JsonObject) -> tuple[str, ...]:
    """Name objects that would be deleted with a Namespace or CustomResourceDefinition; nothing for other kinds.

    In a Namespace objects don't count that are being deleted, have an owner, or that every Namespace gets. Raises
    KubeError where that is not known, but never NotFound.
    """
    if (entry.group, entry.kind) == NAMESPACE:
        return await _in_namespace(client, entry.name)
    return await objects_of_crd(client, live, ()) if (entry.group, entry.kind) == CRD else ()


async def _in_namespace(client: Client, namespace: str) -> tuple[str, ...]:
    """The core group is listed first: mostly it has something, and nothing else has to be requested."""
    if found := await _of_kinds(client, await _kinds_of(client, ["v1"]), _goes_along, namespace):
        return found
    groups = await _discovered("/apis", client.mapper.groups())
    kinds = await _all(_kinds_of(client, _api_versions(each)) for each in groups)
    return await _of_kinds(client, [each for found in kinds for each in found], _goes_along, namespace)


async def _kinds_of(client: Client, api_versions: Iterable[str]) -> list[Resource[_Contained]]:
    """Return the kinds of a group whose objects somebody creates or deletes in a namespace, each in one version."""
    found: dict[str, Resource[_Contained]] = {}
    for api_version in api_versions:
        group, _, version = api_version.rpartition("/")
        for each in await _discovered(api_version, client.mapper.kinds(api_version)):
            is_stored = "list" in each.verbs and not {"create", "delete"}.isdisjoint(each.verbs)
            if each.namespaced and is_stored and "/" not in each.name and (group, each.kind) not in _RECORDS:
                known = Resource(_Contained, group, version, each.kind, _checked(each.name), namespaced=True)
                found.setdefault(each.name, known)
    return list(found.values())


async def _of_kinds(
    client: Client, kinds: Iterable[Resource[_Contained]], left_out: LeftOut, namespace: str | None = None
) -> tuple[str, ...]:
    resources = list(kinds)
    if len(resources) > MAX_KINDS:
        raise ResponseInvalid(f"the cluster serves more than {MAX_KINDS} kinds")
    return summed(await _all(_named(client, each, left_out, namespace) for each in resources))


def summed(found: Iterable[FirstNames]) -> tuple[str, ...]:
    """Return the first names of all, and the number of the others."""
    counted = list(found)
    named = [name for each in counted for name in each.names][:MAX_NAMED]
    more = sum(each.count for each in counted) - len(named)
    return (*named, f"{more} more") if more else tuple(named)


async def _named(
    client: Client, resource: Resource[_Contained], left_out: LeftOut, namespace: str | None
) -> FirstNames:
    found = FirstNames()
    try:
        async for each in client.each_metadata(resource, namespace):
            metadata = each.metadata
            if not left_out(resource, metadata):
                where = "" if namespace or not metadata.namespace else f"{metadata.namespace}/"
                found.add(f"{resource.kind} {where}{metadata.name}")
    except ClusterUnreachable:
        raise
    except Forbidden as error:
        found.add(f"{resource.plural_name} that may not be listed: {error.message}")
    except KubeError as error:  # also NotFound: the kind was served a moment ago
        raise KubeError(f"{resource.plural_name} can't be listed: {error}") from error
    return found


def _identity(resource: Resource[_Contained], metadata: _Metadata) -> Identity:
    return (resource.group, resource.kind, metadata.namespace, metadata.name)


def _goes_along(resource: Resource[_Contained], metadata: _Metadata) -> bool:
    """Tell whether an object in a Namespace is being deleted, or belongs to another one, or to every Namespace."""
    annotations: Mapping[str, str] = metadata.annotations or {}
    is_core = not resource.group
    return (
        bool(metadata.deletion_timestamp)
        or bool(metadata.owner_references)
        or (is_core and (resource.kind, metadata.name) in _OF_EVERY_NAMESPACE)
        or (is_core and resource.kind == "Secret" and annotations.get(_ACCOUNT_OF_TOKEN) == "default")
    )


async def _all(requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all requests, then raise what one of them has raised."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    if failed := [each for each in answers if isinstance(each, BaseException)]:
        raise failed[0]
    return [each for each in answers if not isinstance(each, BaseException)]


async def _discovered(of: str, asked: Awaitable[T]) -> T:
    try:
        return await asked
    except ClusterUnreachable:
        raise
    except KubeError as error:
        raise KubeError(f"the kinds of {of} are not known: {error}") from error


def _api_versions(group: ServedGroup) -> list[str]:
    """Return a group in each of its versions, the preferred one first."""
    preferred = [group.preferred_version] if group.preferred_version is not None else []
    versions = dict.fromkeys(each.version for each in (*preferred, *(group.versions or ())))
    return [f"{_checked(group.name)}/{_checked(each)}" for each in versions]


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ResponseInvalid("the cluster serves a kind whose name is none")
    return name
