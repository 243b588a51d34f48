"""From apiVersion and kind to the resource that serves it, asked of the API server once a group and version.

The built-in kinds are known without asking.

A kind that is not known is asked for again, since its CustomResourceDefinition may be new; but not at every call. So is
one that is known and that the server does not serve as such any more.

That a kind is not served in one version says nothing about its objects. That it is served in none is said by the list
of all groups, which every API server has, and by each version of its group; and, as objects stay where a
CustomResourceDefinition stops serving, by the absence of that.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from kube_runtime.client.built_in_kinds import BUILT_IN_KINDS
from kube_runtime.client.decoding import UNDECODABLE
from kube_runtime.client.transport import Transport
from kube_runtime.exceptions import Forbidden, KindUnknown, NotFound, NotServed, ResponseInvalid
from kube_runtime.resource import JsonObject, Resource

T = TypeVar("T")
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Has a server list objects without their content."""

MAX_GROUP_VERSIONS = 1_000
MAX_KINDS = 1_000
"""Of a group and version: many times those of Kubernetes itself. Users may have any server answer for a group."""
MAX_KIND_LENGTH = 253
_PLURAL = re.compile(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?")
_GROUP_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class ServedKind(msgspec.Struct):
    """A kind, or a subresource of one, in one version of its group."""

    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] = []


class _ResourceList(msgspec.Struct):
    resources: list[ServedKind] | None = None


class _Version(msgspec.Struct):
    version: str


class ServedGroup(msgspec.Struct, rename="camel"):
    """A group and its versions, as the server lists them."""

    name: str
    versions: list[_Version] | None = None
    preferred_version: _Version | None = None


class _GroupList(msgspec.Struct):
    kind: Literal["APIGroupList"]
    groups: list[ServedGroup] | None = None


class _CrdVersion(msgspec.Struct):
    name: str
    served: bool = False


class _CrdNames(msgspec.Struct):
    kind: str
    plural: str


class _CrdSpec(msgspec.Struct):
    group: str
    names: _CrdNames
    scope: str
    versions: list[_CrdVersion]


class _Crd(msgspec.Struct):
    spec: _CrdSpec


class _Name(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Name


class _NameList(msgspec.Struct):
    items: list[_Named] | None = None  # a server writes null for none


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAX_SHARED_CHARACTERS = 128
_DECODER = msgspec.json.Decoder(_ResourceList)
_GROUPS = msgspec.json.Decoder(_GroupList)
_CRD = msgspec.json.Decoder(_Crd)
_NAMES = msgspec.json.Decoder(_NameList)


class RestMapper:
    """Knows which resource serves a kind.

    `again_after_seconds`: how long the answer that a kind is not served is taken for granted.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        again_after_seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._again_after_seconds = again_after_seconds
        self._clock = clock
        self._known: dict[str, dict[str, Resource[JsonObject]]] = {}
        self._asked_at: dict[str, float] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def resource(self, api_version: str, kind: str) -> Resource[JsonObject]:
        """Return the resource of a kind. Raises KindUnknown where the server has none, also after asking again.

        A built-in kind that a server does not serve is found out by the request for its objects: KindUnknown.
        """
        found = BUILT_IN_KINDS.get((api_version, kind)) or self._known.get(api_version, {}).get(kind)
        if found is not None:
            return found
        if not _GROUP_VERSION.fullmatch(api_version):
            raise KindUnknown(api_version, kind)
        if len(self._asking) >= MAX_GROUP_VERSIONS:
            self._forget_most()
        called_at = self._clock()
        async with self._asking.setdefault(api_version, asyncio.Lock()):
            asked_at = self._asked_at.get(api_version, float("-inf"))
            if asked_at < called_at - self._again_after_seconds:
                with suppress(NotServed):
                    self._remember(api_version, kind, await self._ask(api_version))
                self._asked_at[api_version] = self._clock()
        found = self._known.get(api_version, {}).get(kind)
        if found is None:
            raise KindUnknown(api_version, kind)
        return found

    async def served(self, api_version: str, kind: str) -> Resource[JsonObject] | None:
        """Return the resource of a kind in this version or, where that is not served, in another one of its group.

        None where the server states that it serves none of them. Raises KubeError where that is not known, KindUnknown
        where it has objects that it does not serve.
        """
        with suppress(KindUnknown):
            return await self.resource(api_version, kind)
        group, is_consistent = api_version.rpartition("/")[0], True
        for version in await self._versions(group):
            try:
                found = (await self._ask(version)).get(kind)
            except NotServed:  # listed and not served: a CRD has just been deleted or changed
                is_consistent = False
                continue
            if found is not None:
                self._known.setdefault(version, {})[kind] = found
                return found
        try:
            crd = await self._crd_of(group, kind)
        except (Forbidden, NotServed):  # a role for kinds that are always served, or a server without CRDs
            if not is_consistent:
                raise KindUnknown(api_version, kind) from None
            return None
        if crd is not None:
            raise KindUnknown(api_version, kind, f": CustomResourceDefinition {crd} serves no version with it (yet)")
        return None

    async def kinds(self, api_version: str) -> Sequence[ServedKind]:
        """Return what the server serves of a group and version. Raises NotServed where there is no such, KubeError."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return (await self._get(path, _DECODER)).resources or ()

    async def groups(self) -> Sequence[ServedGroup]:
        """Return all groups but the core one. Raises KubeError."""
        return (await self._get("/apis", _GROUPS)).groups or ()

    def recheck(self, api_version: str) -> None:
        """Forget what a server did not serve as it was known: it is looked up again, no more often than others."""
        self._known.pop(api_version, None)

    def learn(self, crd: JsonObject) -> None:
        """Take over what a CustomResourceDefinition says, so that its kind need not be asked for.

        Raises ResponseInvalid for what is none.
        """
        try:
            spec = msgspec.convert(crd, _Crd).spec
        except msgspec.ValidationError as error:
            raise ResponseInvalid(f"the CRD {crd['metadata']['name']} can't be read: {error}") from None
        for version in spec.versions:
            if version.served and _PLURAL.fullmatch(spec.names.plural):
                resource = _resource(
                    spec.group, version.name, spec.names.kind, spec.names.plural, spec.scope == "Namespaced"
                )
                self._known.setdefault(resource.api_version, {})[resource.kind] = resource

    def forget(self) -> None:
        """Ask for every kind again when it is next needed."""
        self._known.clear()
        self._asked_at.clear()

    def _remember(self, api_version: str, wanted: str, found: dict[str, Resource[JsonObject]]) -> None:
        """Remember the kinds of a group and version; of very many, the first and the one that is wanted."""
        kept = {kind: each for number, (kind, each) in enumerate(found.items()) if number < MAX_KINDS or kind == wanted}
        known = self._known.get(api_version, {})
        self._known[api_version] = known | kept if len(known) < MAX_KINDS else kept

    def _forget_most(self) -> None:
        """Forget every group and version that is not being asked for: texts of others may name any number of them."""
        for each in [each for each, asking in self._asking.items() if not asking.locked()]:
            for kept in (self._asking, self._asked_at, self._known):
                kept.pop(each, None)

    async def _ask(self, api_version: str) -> dict[str, Resource[JsonObject]]:
        """Return the kinds of a group and version. Raises NotServed where there is no such, and KubeError."""
        group, _, version = api_version.rpartition("/")
        served = await self.kinds(api_version)
        found = (_resource(group, version, each.kind, each.name, each.namespaced) for each in served)
        return {
            each.kind: each for each in found if _PLURAL.fullmatch(each.plural) and len(each.kind) <= MAX_KIND_LENGTH
        }

    async def _versions(self, group: str) -> list[str]:
        """Return the versions of a group that the server serves, as it lists them."""
        if not group:
            return ["v1"]
        named = [each for each in await self.groups() if each.name == group]
        return [f"{group}/{each.version}" for found in named for each in found.versions or ()]

    async def _crd_of(self, group: str, kind: str) -> str | None:
        """Return the name of the CustomResourceDefinition of a kind; None where there is none."""
        listed = (await self._get(CRDS, _NAMES, accept=METADATA_ONLY)).items
        for name in (each.metadata.name for each in listed or ()):
            if name.partition(".")[2] == group and await self._defined_by(name) == kind:
                return name
        return None

    async def _defined_by(self, crd: str) -> str | None:
        try:
            return (await self._get(f"{CRDS}/{quote(crd, safe='')}", _CRD)).spec.names.kind
        except NotFound:
            return None

    async def _get(self, path: str, decoder: msgspec.json.Decoder[T], accept: str | None = None) -> T:
        answer = await self._transport.request("GET", path, accept=accept)
        try:
            return decoder.decode(answer.body)
        except UNDECODABLE as error:
            raise ResponseInvalid(f"the answer to {path} can't be read: {error}") from None


def _resource(group: str, version: str, kind: str, plural: str, namespaced: bool) -> Resource[JsonObject]:
    """Return a resource, the same one for all clusters that serve it. The texts of a hostile cluster are not kept."""
    is_short = sum(map(len, (group, version, kind, plural))) <= MAX_SHARED_CHARACTERS
    return (_shared if is_short else Resource.dynamic)(group, version, kind, plural, namespaced)


_shared = lru_cache(maxsize=5_000)(Resource.dynamic)
