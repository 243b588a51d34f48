"""From apiVersion and kind to the resource that serves it, asked of the API server once a group and version.

The built-in kinds are known without asking.

A kind that is not known is asked for again, since its CustomResourceDefinition may be new; but not at every call.
"""

import asyncio
import re
import time
from collections.abc import Callable

import msgspec

from kube_runtime.client.built_in_kinds import BUILT_IN_KINDS
from kube_runtime.client.transport import Transport
from kube_runtime.exceptions import KindUnknown, NotFound, ResponseInvalid
from kube_runtime.pool import Pool
from kube_runtime.resource import JsonObject, Resource

__all__ = ["RestMapper"]

MAX_GROUP_VERSIONS = 1_000
_PLURAL = re.compile(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?")
_GROUP_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Served(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_Served] = []


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


MAX_SHARED_CHARACTERS = 128
_RESOURCES: Pool[Resource[JsonObject]] = Pool()
_DECODER = msgspec.json.Decoder(_ResourceList)


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

        A built-in kind that a server does not serve is found out by the request for its objects: NotFound.
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
                self._known.setdefault(api_version, {}).update(await self._ask(api_version))
                self._asked_at[api_version] = self._clock()
        found = self._known.get(api_version, {}).get(kind)
        if found is None:
            raise KindUnknown(api_version, kind)
        return found

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

    def _forget_most(self) -> None:
        """Forget every group and version that is not being asked for: texts of others may name any number of them."""
        for each in [each for each, asking in self._asking.items() if not asking.locked()]:
            for kept in (self._asking, self._asked_at, self._known):
                kept.pop(each, None)

    async def _ask(self, api_version: str) -> dict[str, Resource[JsonObject]]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            answer = await self._transport.request("GET", path)
        except NotFound:
            return {}
        try:
            served = _DECODER.decode(answer.body).resources
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ResponseInvalid(f"the discovery of {api_version} can't be read: {error}") from None
        found = (_resource(group, version, each.kind, each.name, each.namespaced) for each in served)
        return {each.kind: each for each in found if _PLURAL.fullmatch(each.plural)}


def _resource(group: str, version: str, kind: str, plural: str, namespaced: bool) -> Resource[JsonObject]:
    """Return a resource, the same one for all clusters that serve it. The texts of a hostile cluster are not kept."""
    made = Resource.dynamic(group, version, kind, plural, namespaced)
    is_short = sum(map(len, (group, version, kind, plural))) <= MAX_SHARED_CHARACTERS
    return _RESOURCES.shared(made) if is_short else made
