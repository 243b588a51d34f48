"""Reads Module CRs from an SKR, whose users decide about everything in them.

An answer is bounded before it is decoded, and its objects are identified one at a time; `texts` does the rest.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import structlog

from kube_runtime import (
    UNDECODABLE,
    Client,
    JsonLimits,
    JsonObject,
    KindUnknown,
    NotFound,
    Resource,
    ResponseInvalid,
)
from kube_runtime.client.list_pages import ListPages
from kube_runtime.one_by_one import OneByOne
from kube_runtime.resource import is_storable
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config.status import SyncedCondition, undecodable
from lifecycle_manager_api import ResourceReference
from lifecycle_manager_api.event import Name, Number, Text

log = structlog.get_logger("module_config")

MIB = 1024 * 1024
# Any object that etcd stores is accepted here, so that none hides the others of its list; `texts` bounds each of them.
ANSWER = JsonLimits(max_bytes=8 * MIB, max_nodes=1_600_000, max_depth=None)
LARGE_BYTES = 256 * 1024
MAX_KEPT_BYTES = 16 * MIB
IDENTIFIED_AT_ONCE = 200
"""So many Module CRs take a millisecond."""


@dataclass(frozen=True, slots=True)
class ModuleCr:
    """A Module CR in the SKR: its identity, and its text or the `problem` for which it has none.

    Of one that `exceeds_quota` the size of the text is known from before, and it was not made again.
    """

    source: ObjectReference
    reference: ResourceReference
    created: str = ""
    is_deleting: bool = False
    text: str | None = None
    problem: SyncedCondition | None = None
    exceeds_quota: bool = False

    @property
    def is_unread(self) -> bool:
        """Whether there is neither a text nor a reason for it."""
        return self.text is None and self.problem is None and not self.is_deleting and not self.exceeds_quota


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the SKR: `found` by reference, None for an object that does not exist.

    `default` is the default Module CR. `complete` tells whether every Module CR was read, or only some: of the `served`
    kinds, by group and name, where the SKR does not serve all of them (None).
    """

    default: ObjectReference | None
    found: Mapping[ObjectReference, ModuleCr | None]
    complete: bool
    served: frozenset[tuple[str, str]] | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: Annotated[Name, msgspec.Meta(min_length=1)]
    uid: Annotated[Text, msgspec.Meta(min_length=1)]
    resource_version: Annotated[Text, msgspec.Meta(min_length=1)]
    namespace: Name = ""
    generation: Number | None = None
    creation_timestamp: Text = ""
    deletion_timestamp: Text | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata


_HEAD = msgspec.json.Decoder(_Head)


Require = Callable[[Resource[JsonObject]], None]
"""Raises TemplateUnreadable where a module may not have Module CRs of a kind, as the SKR serves it."""


def anything(_: Resource[JsonObject]) -> None:
    """Allow every kind."""


Source = bytes | memoryview
"""The JSON of a Module CR; that of a large one is a view of its page."""


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """Module CRs as they were read: their identity, and the bytes of those that have a text."""

    default: ObjectReference | None
    module_crs: Mapping[ObjectReference, ModuleCr | None]
    sources: Mapping[ObjectReference, Source]
    complete: bool
    served: frozenset[tuple[str, str]] | None = None

    def with_others(self, others: "Found") -> "Found":
        """Return these with others, which are newer."""
        kept = {reference: each for reference, each in self.sources.items() if reference not in others.module_crs}
        module_crs = {**self.module_crs, **others.module_crs}
        return Found(others.default, module_crs, {**kept, **others.sources}, self.complete, self.served)

    def of(self, references: Collection[ObjectReference]) -> "Found":
        """Return those of some Module CRs."""
        module_crs = {reference: each for reference, each in self.module_crs.items() if reference in references}
        sources = {reference: each for reference, each in self.sources.items() if reference in references}
        return Found(self.default, module_crs, sources, self.complete, self.served)


NOTHING_FOUND = Found(None, {}, {}, complete=False)


@dataclass(eq=False, slots=True, weakref_slot=True)
class ModuleCrListing:
    """Reads every Module CR of some kinds, page by page; the SKR need not know all kinds (yet).

    It can be left after any page, and goes on where it was. What was read by name meanwhile is newer than its pages
    (`note`). Of a list that is too long, or that ends in what is no list, the first are read, and the result is
    not complete; nor is it where everything is to be read again since it began (`is_stale`). `kept` are the bytes in
    memory.
    """

    kinds: Sequence[ModuleCrKind]
    require: Require = anything
    turns: OneByOne = field(default_factory=OneByOne)
    is_removal: bool = False
    kept: int = 0
    was_left: bool = False
    is_stale: bool = False
    _read_kinds: int = 0
    _pages: ListPages = field(default_factory=ListPages)
    _complete: bool = True
    _served: set[tuple[str, str]] = field(default_factory=set)
    _newer: set[ObjectReference] = field(default_factory=set)
    _module_crs: dict[ObjectReference, ModuleCr | None] = field(default_factory=dict)
    _sources: dict[ObjectReference, Source] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        return self._read_kinds == len(self.kinds)

    async def read(self, skr: Client, is_awaited: Callable[[], bool] = lambda: False) -> Found:
        """Read to the end, or for a page where something else is awaited. Raises KubeError."""
        while not self.is_finished:
            has_more = await self._has_more(skr, self.kinds[self._read_kinds])
            if not has_more:
                self._read_kinds, self._pages = self._read_kinds + 1, ListPages()
            elif is_awaited():
                return NOTHING_FOUND
        served = None if len(self._served) == len(self.kinds) else frozenset(self._served)
        complete = self._complete and not self.is_stale
        return Found(_default_of(self.kinds), self._module_crs, self._sources, complete, served)

    def note(self, read: Found) -> None:
        """Replace what the pages show, or will show, of objects that were read by name meanwhile."""
        self._newer |= read.module_crs.keys()
        for reference, module_cr in read.module_crs.items():
            self._keep(reference, module_cr, read.sources.get(reference))

    async def _has_more(self, skr: Client, kind: ModuleCrKind) -> bool:
        """Read the next page, and tell whether another one follows.

        A kind is read in whatever version is served. The CRD of one that is gone may be on its way, but not that of a
        module that is removed.
        """
        try:
            resource = await skr.mapper.served(kind.api_version, kind.kind)
        except KindUnknown:
            return False  # its CRD serves no version (yet)
        if resource is not None or self.is_removal:
            self._served.add((kind.group, kind.kind))
        if resource is None:
            return False
        self.require(resource)
        try:
            for number, item in enumerate(await skr.next_page(resource, self._pages, limits=ANSWER), start=1):
                raw: Source = memoryview(item)
                is_large = len(raw) > LARGE_BYTES
                if is_large or number % IDENTIFIED_AT_ONCE == 0:
                    await self.turns.turn()
                if not is_large:
                    raw = bytes(raw)  # or a small one would keep its page
                module_cr = _identified(kind, resource, raw)
                if module_cr is None:
                    self._complete = False
                elif module_cr.source not in self._newer:
                    self._keep(module_cr.source, module_cr, raw)
        except ResponseInvalid as error:
            log.warning("module crs not listed completely", kind=kind.kind, error=str(error))
            self._complete = False
            return False
        return not self._pages.is_complete

    def _keep(self, reference: ObjectReference, module_cr: ModuleCr | None, raw: Source | None) -> None:
        self._module_crs[reference] = module_cr
        self.kept -= len(self._sources.pop(reference, b""))
        if raw is not None:
            self._sources[reference] = raw
            self.kept += len(raw)
        while self.kept > MAX_KEPT_BYTES:
            largest = max(self._sources, key=lambda each: len(self._sources[each]))
            self.kept -= len(self._sources.pop(largest))


async def find_some(
    skr: Client, kinds: Sequence[ModuleCrKind], references: Iterable[ObjectReference], require: Require = anything
) -> Found:
    """Read only some Module CRs, each with a request of its own. Raises KubeError, and what `require` raises.

    What is of another kind, or of one that is not served, is left out: that says nothing of its existence.
    """
    module_crs: dict[ObjectReference, ModuleCr | None] = {}
    sources: dict[ObjectReference, Source] = {}
    by_kind = {(kind.group, kind.kind): kind for kind in kinds}
    for reference in references:
        kind = by_kind.get((reference.group, reference.kind))
        resource = await _served(skr, kind) if kind is not None else None
        if kind is None or resource is None:
            continue
        if resource.namespaced != bool(reference.namespace) or not is_storable(reference.name):
            continue  # no object has such an address, whatever announced it
        require(resource)
        try:
            raw = await skr.get_undecoded(resource, reference.name, reference.namespace or None, limits=ANSWER)
        except NotFound:
            module_crs[reference] = None
            continue
        except ResponseInvalid as error:
            module_crs[reference] = _nameless(resource, reference, str(error))
            continue
        module_cr = _identified(kind, resource, raw)
        if module_cr is None or module_cr.source != reference:
            module_crs[reference] = _nameless(resource, reference, "its identity is not that of the requested object")
            continue
        module_crs[reference], sources[reference] = module_cr, raw
    return Found(_default_of(kinds), module_crs, sources, complete=False)


async def _served(skr: Client, kind: ModuleCrKind) -> Resource[JsonObject] | None:
    """Return the resource that serves a kind, in whatever version; None where none is served. Raises KubeError."""
    with suppress(KindUnknown):
        return await skr.mapper.served(kind.api_version, kind.kind)
    return None


def _identified(kind: ModuleCrKind, resource: Resource[JsonObject], raw: Source) -> ModuleCr | None:
    """Return the identity of a Module CR, None where it has no valid one."""
    try:
        metadata = _HEAD.decode(raw).metadata
    except UNDECODABLE as error:
        log.warning("module cr without a valid identity", kind=kind.kind, error=str(error)[:200])
        return None
    reference = ResourceReference(
        api_version=resource.api_version,
        kind=kind.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
    )
    source = kind.reference(metadata.namespace, metadata.name)
    return ModuleCr(source, reference, metadata.creation_timestamp, metadata.deletion_timestamp is not None)


def _nameless(resource: Resource[JsonObject], reference: ObjectReference, why: str) -> ModuleCr:
    known = ResourceReference(
        api_version=resource.api_version, kind=resource.kind, namespace=reference.namespace, name=reference.name
    )
    return ModuleCr(reference, known, problem=undecodable(reference, why))


def _default_of(kinds: Sequence[ModuleCrKind]) -> ObjectReference | None:
    return kinds[0].default if kinds else None
