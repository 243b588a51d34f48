"""The requests for the catalog in an SKR.

Its objects are deleted by `object_set` once the Kyma is being deleted. Until then they are not written by it: their
resource versions, or what this process has brought, say that they are as they were, so that none is read before it is
deleted, and one to which somebody has added fields is replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import structlog

from kube_runtime import (
    Applier,
    Client,
    ClusterUnreachable,
    Invalid,
    InventoryEntry,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectKey,
    Request,
    Resource,
    Revision,
    read_kind,
)
from kube_runtime.exceptions import without_frames
from kube_runtime.tracing import part
from lifecycle_manager.catalog_sync.rules import CatalogDifferences, Revisions, is_as_wanted
from lifecycle_manager.catalog_sync.snapshot import CatalogSnapshot, CatalogState, fingerprint
from lifecycle_manager.catalog_sync.status import CatalogRefused
from lifecycle_manager.catalog_sync.wanted import CRDS, Item, Key, WantedItem
from lifecycle_manager.contract.former import marks
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.ownership import OwnObjects
from lifecycle_manager.skr.announcement import Announcement, ObservedObject
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, names

FIELD_MANAGER = "lifecycle-manager-catalog"
OWN = f"{names.MANAGED_BY} in ({', '.join(filter(None, (names.LIFECYCLE_MANAGER, marks().managed_by)))})"
RESOURCES: dict[str, Resource[Any]] = {
    ModuleTemplate.KIND: MODULE_TEMPLATES,
    ModuleReleaseMeta.KIND: MODULE_RELEASE_METAS,
}
T = TypeVar("T")
log = structlog.get_logger("catalog_sync")


@dataclass(eq=False, slots=True)
class SkrCatalog:
    """The catalog in one SKR during one reconcile.

    `found` are LM's objects of the kinds that were listed or read, as the newest of these requests has shown them.
    """

    connections: Connections
    request: Request[ObjectKey, CatalogState]
    found: dict[Key, Revision | Item] = field(default_factory=dict)

    @property
    def state(self) -> CatalogState:
        return self.request.state

    async def skr(self) -> Client:
        """Return the client of the SKR, the same until the reconcile ends. Raises SkrAccessError."""
        return await self.request.shared("skr", lambda: self.connections.to(self.request.key.name))

    async def apply_crds(self) -> frozenset[str]:
        """Apply the CRDs; return the kinds that are new in the SKR, so that it has no objects of them yet."""
        applied = await Applier(await self.skr(), field_manager=FIELD_MANAGER).apply(CRDS, prune=False)
        applied.raise_first_failure()
        created = {each.entry.name for each in applied.outcomes if each.action == "created"}
        return frozenset(kind for kind, resource in RESOURCES.items() if resource.plural_name in created)

    async def changed(self) -> tuple[str, ...]:
        """Return the kinds that changed. One whose resource versions are not known did, without a request."""
        known, changed = self.state.fingerprints, []
        for kind, resource in RESOURCES.items():
            items = await _revisions(await self.skr(), resource, own=True) if kind in known else ()
            self.found |= {(kind, each.metadata.name): each for each in items}
            if kind not in known or fingerprint(items) != known[kind]:
                changed.append(kind)
        return tuple(changed)

    async def read(self, kinds: Collection[str]) -> dict[Key, Item]:
        """Return LM's objects of these kinds."""
        skr, live = await self.skr(), dict[Key, Item]()
        for kind in kinds:
            listed = await skr.list(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OWN)
            live |= {(kind, item.metadata.name): item for item in listed.items}
        self.found = {**{key: each for key, each in self.found.items() if key[0] not in kinds}, **live}
        return live

    async def write(
        self,
        seen: CatalogSnapshot,
        differences: CatalogDifferences,
        kinds: Collection[str],
        live: Mapping[Key, Item],
    ) -> CatalogSnapshot:
        """Write differences of some kinds. Raises KindUnknown, or CatalogRefused after all objects were tried.

        Of these kinds the SKR has the `live` objects. Returns the snapshot with the new record.
        """
        skr, state = await self.skr(), self.state
        writes: dict[Key, Callable[[], Awaitable[Item | None]]] = {
            **{(each.item.KIND, each.item.metadata.name): partial(_apply, skr, each) for each in differences.apply},
            **{key: partial(_delete, skr, key) for key in differences.delete},
        }
        # Until all of it is written and reported, nothing is known of these kinds.
        state.fingerprints = {kind: each for kind, each in state.fingerprints.items() if kind not in kinds}
        state.is_suspected = True
        with part("WriteItems"):
            written = await _carry_out(writes)
        if writes:
            applied, deleted = len(differences.apply), len(differences.delete)
            log.info("catalog synchronized", server=skr.server, applied=applied, deleted=deleted)
        # The objects as they were written, not as they are by now: a change since then has to be seen as a change.
        there = {key: item for key, item in {**live, **written}.items() if item is not None}
        state.fingerprints |= {
            kind: fingerprint(item for (of, _), item in there.items() if of == kind) for kind in kinds
        }
        return replace(seen, record=replace(seen.record, catalog=seen.wanted.digest))

    async def revisions(self, kinds: Iterable[str], *, own: bool) -> Revisions:
        """Return the objects of each kind, all or those of LM; those of a CRD that is deleted are deleted with it."""
        skr = await self.skr()
        read = partial(_revisions, skr, own=own)
        found = {kind: await read_kind(skr, RESOURCES[kind].api_version, kind, read) for kind in kinds}
        return {kind: revisions for kind, revisions in found.items() if revisions is not None}

    async def delete(self, own: Revisions) -> None:
        """Delete objects that are still LM's. Raises CatalogRefused."""
        objects = SkrObjects.of(None, await self.skr(), owner=OwnObjects(FIELD_MANAGER, ()))
        removed, _ = await objects.delete([_entry(kind, each.metadata.name) for kind in own for each in own[kind]])
        _raise_refusals({str(each.entry): each.cause for each in removed.failed if each.cause is not None})

    async def delete_crds(self, kinds: Iterable[str]) -> None:
        """Delete the CRDs of kinds without objects."""
        for kind in kinds:
            with suppress(NotFound):  # somebody else was faster
                await (await self.skr()).delete(CUSTOM_RESOURCE_DEFINITIONS, RESOURCES[kind].plural_name)

    async def remove_finalizers(self, kyma: Kyma) -> None:
        """Remove the finalizers of others from LM's objects that are being deleted."""
        skr = await self.skr()
        for typed in RESOURCES.values():
            resource = Resource.dynamic(typed.group, typed.version, typed.kind, typed.plural, namespaced=True)
            listed = await read_kind(
                skr, typed.api_version, typed.kind, lambda it: skr.list(it, names.SKR_NAMESPACE, label_selector=OWN)
            )
            for item in filter(is_held, listed.items if listed is not None else ()):
                await strip_finalizers(skr, resource, item, kyma, field_manager=FIELD_MANAGER)

    def shows(self, announcement: Announcement) -> ObservedObject:
        """Return what was found of an announced object. One that is being deleted has another resource version."""
        _, kind, _, name = announcement.object
        if (item := self.found.get((kind, name))) is None:
            return ObservedObject()
        version = item.metadata.resource_version or ""
        return ObservedObject(item.metadata.uid, version, announcement.resource_version not in ("", version))


async def _revisions(skr: Client, resource: Resource[Any], *, own: bool) -> tuple[Revision, ...]:
    """Return the objects of a kind, all or those of LM. Raises KubeError, KindUnknown where it is not served."""
    if own:
        return await skr.list_revisions(resource, names.SKR_NAMESPACE, label_selector=OWN)
    return await skr.list_revisions(resource)


async def _carry_out(writes: Mapping[Key, Callable[[], Awaitable[T]]]) -> dict[Key, T]:
    """Carry writes of objects out and return their results. Raises for what failed after all were tried."""
    results: dict[Key, T] = {}
    failures: dict[str, KubeError] = {}

    async def carry_out(key: Key, write: Callable[[], Awaitable[T]]) -> None:
        try:
            results[key] = await write()
        except KubeError as error:
            failures[" ".join(key)] = without_frames(error)

    async with asyncio.TaskGroup() as tasks:  # the client limits how many requests are under way
        for key, write in writes.items():
            tasks.create_task(carry_out(key, write))
    _raise_refusals(failures)
    return results


def _raise_refusals(failures: Mapping[str, KubeError]) -> None:
    """Raise the failure to reach the SKR or to find a kind, or else all refusals in one CatalogRefused."""
    for error in failures.values():
        if isinstance(error, ClusterUnreachable | KindUnknown):
            raise error
    if failures:
        raise CatalogRefused("; ".join(f"{name}: {failures[name]}" for name in sorted(failures)))


async def _apply(skr: Client, wanted: WantedItem) -> Item:
    resource: Resource[Item] = RESOURCES[wanted.item.KIND]
    name, namespace = wanted.item.metadata.name, names.SKR_NAMESPACE
    try:
        written = await skr.apply(resource, name, wanted.document, namespace, field_manager=FIELD_MANAGER)
        if is_as_wanted(written, wanted.item):
            return written
    except Invalid as refusal:  # maybe only together with what others added
        try:
            written = await skr.get(resource, name, namespace)
        except NotFound:
            raise refusal from None
    # An apply keeps the fields that others added.
    metadata = {**wanted.document["metadata"], "resourceVersion": written.metadata.resource_version}
    document = {**wanted.document, "metadata": metadata}
    return await skr.replace(resource, name, document, namespace, field_manager=FIELD_MANAGER)


async def _delete(skr: Client, key: Key) -> None:
    kind, name = key
    with suppress(NotFound):  # a user was faster
        await skr.delete(RESOURCES[kind], name, names.SKR_NAMESPACE)


def _entry(kind: str, name: str) -> InventoryEntry:
    return InventoryEntry(RESOURCES[kind].group, RESOURCES[kind].version, kind, names.SKR_NAMESPACE, name)
