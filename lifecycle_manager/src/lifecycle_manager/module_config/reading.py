"""Reads Module CRs from an SKR, whose users decide about everything in them.

An answer is bounded before it is decoded, and its objects are identified one at a time; `texts` does the rest.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
    ResponseTooLarge,
)
from kube_runtime.resource import is_storable
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config.status import SyncedCondition, too_large, undecodable
from lifecycle_manager_api import ResourceReference
from lifecycle_manager_api.event import Name, Number, Text

log = structlog.get_logger("module_config")

MIB = 1024 * 1024
# Any object that etcd stores is accepted here, so that none hides the others of its list; `texts` bounds each of them.
ANSWER = JsonLimits(max_bytes=8 * MIB, max_nodes=1_600_000, max_depth=None)
LARGE_BYTES = 256 * 1024
MAX_KEPT_BYTES = 16 * MIB
MAX_LISTED, MAX_LISTING_SECONDS = 5_000, 15.0
"""Whose ModuleConfigs are planned in 10 ms, and what leaves time for the announced ones of such a cluster."""


@dataclass(frozen=True, slots=True)
class ModuleCr:
    """A Module CR in the SKR: its identity, and its text or the `problem` for which it has none.

    Until either is known it has the JSON that was read, `raw`.
    """

    source: ObjectReference
    reference: ResourceReference
    created: str = ""
    is_deleting: bool = False
    text: str | None = None
    problem: SyncedCondition | None = None
    raw: bytes = field(default=b"", repr=False)

    @property
    def is_unread(self) -> bool:
        """Whether there is neither a text nor a reason for it."""
        return self.text is None and self.problem is None and not self.is_deleting


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the SKR: `found` by reference, None for an object that does not exist.

    `default` is the default Module CR. `complete` tells whether every Module CR was read, or only some: of the `served`
    kinds, by group and name, where the SKR does not serve all of them (None). `staying` are of former kinds that exist.
    """

    default: ObjectReference | None
    found: Mapping[ObjectReference, ModuleCr | None]
    complete: bool
    served: frozenset[tuple[str, str]] | None = None
    staying: frozenset[ObjectReference] = frozenset()

    @property
    def present(self) -> list[ModuleCr]:
        """The Module CRs that exist and are not being deleted."""
        return [each for each in self.found.values() if each is not None and not each.is_deleting]

    def only(self, references: Collection[ObjectReference]) -> "Reading":
        """Return what was read of some Module CRs."""
        return replace(self, found={each: read for each, read in self.found.items() if each in references})


NOTHING_READ = Reading(None, {}, complete=False)


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


async def read_module_crs(
    skr: Client,
    kinds: Sequence[ModuleCrKind],
    require: Require,
    *,
    named: Collection[ObjectReference],
    complete: bool,
    is_removal: bool,
) -> Reading:
    """Read every Module CR where that is `complete`, and by name those of the named ones that were not listed.

    Raises KubeError.
    """
    found = await find_all(skr, kinds, require, is_removal=is_removal) if complete else NOTHING_READ
    if found.complete:
        return found
    by_name = await find_some(skr, kinds, sorted(set(named).difference(found.found)), require)
    return replace(found, default=by_name.default, found={**found.found, **by_name.found})


async def find_all(
    skr: Client, kinds: Sequence[ModuleCrKind], require: Require, *, is_removal: bool = False
) -> Reading:
    """Read every Module CR of some kinds, page by page; the SKR need not know all kinds (yet). Raises KubeError.

    Of a list that is too long, or that ends in what is no list, the first are read, and the result is not complete.
    The CRD of a kind that is gone may be on its way, but not that of a module that is removed.
    """
    found: dict[ObjectReference, ModuleCr | None] = {}
    complete, ends = True, time.monotonic() + MAX_LISTING_SECONDS
    resources = await _resources(skr, kinds, require)
    for kind, resource in resources.items():
        if resource is None:
            continue
        try:
            async for page in skr.undecoded_pages(resource, limits=ANSWER):
                if len(found) > MAX_LISTED or time.monotonic() > ends:
                    raise ResponseTooLarge(f"more than {MAX_LISTED} objects or {MAX_LISTING_SECONDS:g} s")
                for item in page:
                    raw = bytes(item)  # a view would keep its page
                    if len(raw) > LARGE_BYTES:
                        await asyncio.sleep(0)
                    module_cr = _identified(kind, resource, raw)
                    if module_cr is None:
                        complete = False
                    else:
                        found[module_cr.source] = module_cr
                _drop_largest(found)
        except ResponseInvalid as error:
            log.warning("module crs not listed completely", kind=kind.kind, error=str(error))
            complete = False
    served = frozenset((kind.group, kind.kind) for kind, each in resources.items() if each is not None or is_removal)
    default = kinds[0].default if kinds else None
    return Reading(default, found, complete, None if len(served) == len(kinds) else served)


def _drop_largest(found: dict[ObjectReference, ModuleCr | None]) -> None:
    """Drop the JSON of the largest Module CRs where all together have more bytes than are kept."""
    kept = sum(len(each.raw) for each in found.values() if each is not None)
    if kept <= MAX_KEPT_BYTES:
        return
    why = f"the Module CRs of the cluster have more than {MAX_KEPT_BYTES} bytes"
    for each in sorted(filter(None, found.values()), key=lambda each: len(each.raw), reverse=True):
        if kept <= MAX_KEPT_BYTES:
            return
        kept -= len(each.raw)
        found[each.source] = replace(each, raw=b"", problem=too_large(each.source, why))


async def find_some(
    skr: Client,
    kinds: Sequence[ModuleCrKind],
    references: Collection[ObjectReference],
    require: Require,
) -> Reading:
    """Read only some Module CRs, each with a request of its own. Raises KubeError.

    What is of another kind, or of one that is not served, is left out: that says nothing of its existence.
    """
    module_crs: dict[ObjectReference, ModuleCr | None] = {}
    named = {(each.group, each.kind) for each in references}
    resources = await _resources(skr, [kind for kind in kinds if (kind.group, kind.kind) in named], require)
    by_kind = {(kind.group, kind.kind): (kind, each) for kind, each in resources.items() if each is not None}
    for reference in references:
        kind, resource = by_kind.get((reference.group, reference.kind), (None, None))
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
        module_crs[reference] = module_cr
        _drop_largest(module_crs)
    return Reading(kinds[0].default if kinds else None, module_crs, complete=False)


async def _resources(
    skr: Client, kinds: Iterable[ModuleCrKind], require: Require
) -> Mapping[ModuleCrKind, Resource[JsonObject] | None]:
    """Return the resource of each kind, in whatever version is served; None where the server says that it has none.

    A kind is left out whose CRD serves no version (yet): that says nothing of its objects. Raises KubeError.
    """
    found: dict[ModuleCrKind, Resource[JsonObject] | None] = {}
    for kind in kinds:
        with suppress(KindUnknown):
            resource = found[kind] = await skr.mapper.served(kind.api_version, kind.kind)
            if resource is not None:
                require(resource)
    return found


def _identified(kind: ModuleCrKind, resource: Resource[JsonObject], raw: bytes) -> ModuleCr | None:
    """Return a Module CR with its identity, None where it has no valid one."""
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
    is_deleting = metadata.deletion_timestamp is not None
    return ModuleCr(source, reference, metadata.creation_timestamp, is_deleting, raw=b"" if is_deleting else raw)


def _nameless(resource: Resource[JsonObject], reference: ObjectReference, why: str) -> ModuleCr:
    known = ResourceReference(
        api_version=resource.api_version, kind=resource.kind, namespace=reference.namespace, name=reference.name
    )
    return ModuleCr(reference, known, problem=undecodable(reference, why))
