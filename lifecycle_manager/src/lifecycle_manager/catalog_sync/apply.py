"""Carries out the steps for the catalog in an SKR, and reports on them in the status of the Kyma.

Its objects are not written by `object_set`: their resource versions, or what this process has brought, say that they
are as they were, so that none is read before it is deleted, and one to which somebody has added fields is replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, assert_never

import structlog

from kube_runtime import (
    Applier,
    Client,
    ClusterUnreachable,
    Informer,
    KindUnknown,
    KubeError,
    Manager,
    NotFound,
    ObjectKey,
    Request,
    Resource,
    Result,
    Revision,
    read_kind,
)
from kube_runtime.exceptions import without_frames
from lifecycle_manager.catalog_sync import plan
from lifecycle_manager.catalog_sync.plan import is_as_wanted
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot, CatalogState, fingerprint
from lifecycle_manager.catalog_sync.status import CatalogRefused, failed
from lifecycle_manager.catalog_sync.wanted import CRDS, KINDS, Item, Key, WantedItem
from lifecycle_manager.contract.conditions import CATALOG, ConditionContent, write_condition
from lifecycle_manager.contract.former import marks
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.contract.signals import CatalogRecorded
from lifecycle_manager.skr import Connections
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, names

FIELD_MANAGER = "lifecycle-manager-catalog"
OWN = f"{names.MANAGED_BY} in ({', '.join(filter(None, (names.LIFECYCLE_MANAGER, marks().managed_by)))})"
RESOURCES: dict[str, Resource[Any]] = {
    ModuleTemplate.KIND: MODULE_TEMPLATES,
    ModuleReleaseMeta.KIND: MODULE_RELEASE_METAS,
}
CONCURRENT_WRITES = 16
T = TypeVar("T")
log = structlog.get_logger("catalog_sync")


@dataclass(frozen=True, eq=False)
class CatalogActions:
    """Carries out steps in the SKR."""

    connections: Connections

    async def apply(
        self,
        request: Request[ObjectKey, CatalogState],
        seen: CatalogSnapshot,
        step: plan.SyncStep | plan.RemovalStep,
    ) -> CatalogSnapshot:
        """Carry one step out. Raises KubeError, SkrAccessError."""
        skr = await request.shared("skr", lambda: self.connections.to(request.key.name))
        match step:
            case plan.ApplyCatalogCRDs():
                return await _apply_crds(skr, seen)
            case plan.CheckResourceVersions(kinds):
                return await _check(skr, seen, kinds)
            case plan.ReadItems(kinds):
                return await _read(skr, seen, kinds)
            case plan.WriteItems():
                return await _write(skr, seen, step)
            case plan.ListOwnItems():
                return replace(seen, own=await _known_revisions(skr, KINDS, own=True))
            case plan.DeleteOwnItems(items, kinds):
                await _carry_out({key: partial(_delete, skr, key) for key in items})
                return replace(seen, remaining=await _known_revisions(skr, kinds, own=False))
            case plan.DeleteCatalogCRDs(kinds):
                return await _delete_crds(skr, seen, kinds)
            case plan.RemoveOthersFinalizers():
                for resource in RESOURCES.values():
                    await _remove_finalizers(skr, resource, seen.kyma)
                return replace(seen, are_finalizers_removed=True)
            case _:
                assert_never(step)


@dataclass(frozen=True, eq=False)
class CatalogReports:
    manager: Manager
    kymas: Informer[Kyma]

    async def finish(
        self, request: Request[ObjectKey, CatalogState], seen: CatalogSnapshot, end: plan.CatalogDone
    ) -> Result:
        """Report the end of a reconcile. Raises KubeError."""
        state, now = request.state, self.manager.clock.monotonic()
        state.fingerprints = seen.fingerprints
        if seen.failure_of(plan.WriteItems) is not None:  # some of the objects are written
            state.confirmed, state.suspected = "", KINDS
        if end.record is not None and (seen.is_confirmed or seen.fingerprints.keys() >= {*KINDS}):
            state.confirmed = end.record.catalog
        if end.condition is not None:
            await self._write(self.kymas.get(request.key) or seen.kyma, end.condition, end.record)
            if end.record is not None and state.held is not None:
                # What the next write to the status would take along is out of date.
                self.manager.publish(replace(state.held[0], record=state.held[0].before))
                state.held = None
        elif end.record is not None:
            recorded = CatalogRecorded(request.key.name, seen.kyma.status.records.catalog, str(end.record))
            state.hold(recorded, until=now + seen.hold_seconds)
            self.manager.publish(recorded)
        if not end.is_checked:
            return Result(end.requeue_after)
        state.checked(next_check=now + seen.interval_seconds)
        again = state.announcements.settle({each: seen.shows(each) for each in state.announcements.of()}, now=now)
        return Result(end.requeue_after if again is None else again)

    async def unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.kymas.get(key)
        if kyma is not None:
            await self._write(kyma, failed(error))

    async def _write(self, kyma: Kyma, condition: ConditionContent, record: CatalogRecord | None = None) -> None:
        """Write the condition, and the record unless that is None, where they differ."""
        is_known = record is None or record == CatalogRecord.of(kyma)
        records = {"catalog": kyma.status.records.catalog if is_known else str(record)}
        now = self.manager.clock.now()
        written = await write_condition(
            self.manager.client, kyma, CATALOG, condition, now=now, field_manager=FIELD_MANAGER, records=records
        )
        if written is not None:
            self.kymas.wrote(written)


async def _apply_crds(skr: Client, seen: CatalogSnapshot) -> CatalogSnapshot:
    """Apply the CRDs. An SKR that had lost one has lost its objects too, so all kinds count as changed."""
    applied = await Applier(skr, field_manager=FIELD_MANAGER).apply(CRDS, prune=False)
    applied.raise_first_failure()
    created = {each.entry.name for each in applied.outcomes if each.action == "created"}
    new = frozenset(kind for kind, resource in RESOURCES.items() if resource.plural_name in created)
    return replace(
        seen,
        record=replace(seen.record, crds=seen.crds_digest),
        new_kinds=new,
        changed_kinds=KINDS if new else seen.changed_kinds,
        are_crds_missing=False,
    )


async def _check(skr: Client, seen: CatalogSnapshot, kinds: Iterable[str]) -> CatalogSnapshot:
    """Find the kinds that changed. One whose resource versions are not known counts as changed without a request."""
    known = seen.fingerprints
    try:
        found = {kind: await _revisions(skr, RESOURCES[kind], own=True) for kind in kinds if kind in known}
    except KindUnknown:
        return replace(seen, changed_kinds=tuple(kinds), are_crds_missing=True)
    same = {kind for kind, each in found.items() if fingerprint(each) == known[kind]}
    changed = tuple(kind for kind in kinds if kind not in same)
    shown = {(kind, each.metadata.name): each for kind in found for each in found[kind]}
    return replace(seen, changed_kinds=changed, are_crds_missing=False, found=shown)


async def _read(skr: Client, seen: CatalogSnapshot, kinds: Collection[str]) -> CatalogSnapshot:
    live: dict[Key, Item] = {}
    try:
        for kind in kinds:
            listed = await skr.list(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OWN)
            live |= {(kind, item.metadata.name): item for item in listed.items}
    except KindUnknown:
        return replace(seen, are_crds_missing=True)
    left = {key: each for key, each in seen.found.items() if key[0] not in kinds}
    return replace(seen, live=live, found=left | live)


async def _write(skr: Client, seen: CatalogSnapshot, step: plan.WriteItems) -> CatalogSnapshot:
    """Write the differences. Raises CatalogRefused after all objects were tried.

    An SKR that has lost a CRD meanwhile is not read before: all of it is written again.
    """
    writes: dict[Key, Callable[[], Awaitable[Any]]] = {
        **{(each.item.KIND, each.item.metadata.name): partial(_apply, skr, each) for each in step.apply},
        **{key: partial(_delete, skr, key) for key in step.delete},
    }
    try:
        written = await _carry_out(writes)
    except CatalogRefused as refused:
        if step.kinds or not refused.is_kind_missing:
            raise
        return replace(seen, are_crds_missing=True)
    if writes:
        log.info("catalog synchronized", server=skr.server, applied=len(step.apply), deleted=len(step.delete))
    # The objects as they were written, not as they are by now: a change since then has to be seen as a change.
    left = {key: item for key, item in {**(seen.live or {}), **written}.items() if key not in step.delete}
    unknown = {kind for kind, _ in writes}
    fingerprints = {kind: each for kind, each in seen.fingerprints.items() if kind not in unknown}
    fingerprints |= {kind: fingerprint(item for (of, _), item in left.items() if of == kind) for kind in step.kinds}
    record = replace(seen.record, catalog=seen.wanted.digest)
    return replace(
        seen,
        record=record,
        fingerprints=fingerprints,
        changed_kinds=() if step.kinds else None,
        is_confirmed=not step.kinds or {*step.kinds} >= {*KINDS},
    )


async def _delete_crds(skr: Client, seen: CatalogSnapshot, kinds: tuple[str, ...]) -> CatalogSnapshot:
    for kind in kinds:
        with suppress(NotFound):  # somebody else was faster
            await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, RESOURCES[kind].plural_name)
    remaining = seen.remaining or {}
    return replace(seen, remaining={kind: items for kind, items in remaining.items() if kind not in kinds})


async def _remove_finalizers(skr: Client, typed: Resource[Any], kyma: Kyma) -> None:
    resource = Resource.dynamic(typed.group, typed.version, typed.kind, typed.plural, namespaced=True)
    listed = await read_kind(
        skr, typed.api_version, typed.kind, lambda _: skr.list(resource, names.SKR_NAMESPACE, label_selector=OWN)
    )
    for item in filter(is_held, listed.items if listed is not None else ()):  # else its CRD was deleted meanwhile
        await strip_finalizers(skr, resource, item, kyma, field_manager=FIELD_MANAGER)


async def _known_revisions(skr: Client, kinds: Iterable[str], *, own: bool) -> dict[str, tuple[Revision, ...]]:
    """Return the objects of each kind that the SKR has; those of a CRD that is deleted are deleted with it."""
    read = partial(_revisions, skr, own=own)
    found = {kind: await read_kind(skr, RESOURCES[kind].api_version, kind, read) for kind in kinds}
    return {kind: revisions for kind, revisions in found.items() if revisions is not None}


async def _revisions(skr: Client, resource: Resource[Any], *, own: bool) -> tuple[Revision, ...]:
    """Return the objects of a kind, all or those of LM. Raises KubeError, KindUnknown where it is not served."""
    if own:
        return await skr.list_revisions(resource, names.SKR_NAMESPACE, label_selector=OWN)
    return await skr.list_revisions(resource)


async def _carry_out(writes: Mapping[Key, Callable[[], Awaitable[T]]]) -> dict[Key, T]:
    """Carry out writes of objects, CONCURRENT_WRITES at a time, and return their results.

    Raises, after all were tried, the failure to reach the SKR, or else all refusals in one CatalogRefused.
    """
    free = asyncio.Semaphore(CONCURRENT_WRITES)
    results: dict[Key, T] = {}
    failures: dict[Key, KubeError] = {}

    async def carry_out(key: Key, write: Callable[[], Awaitable[T]]) -> None:
        async with free:
            try:
                results[key] = await write()
            except KubeError as error:
                failures[key] = without_frames(error)

    async with asyncio.TaskGroup() as tasks:
        for key, write in writes.items():
            tasks.create_task(carry_out(key, write))
    for error in failures.values():
        if isinstance(error, ClusterUnreachable):
            raise error
    if failures:
        text = "; ".join(f"{kind} {name}: {failures[kind, name]}" for kind, name in sorted(failures))
        raise CatalogRefused(
            text, is_kind_missing=any(isinstance(each, NotFound | KindUnknown) for each in failures.values())
        )
    return results


async def _apply(skr: Client, wanted: WantedItem) -> Item:
    resource, name, namespace = RESOURCES[wanted.item.KIND], wanted.item.metadata.name, names.SKR_NAMESPACE
    written: Item = await skr.apply(resource, name, wanted.document, namespace, field_manager=FIELD_MANAGER)
    if not is_as_wanted(written, wanted.item):  # an apply keeps the fields that others added
        metadata = {**wanted.document["metadata"], "resourceVersion": written.metadata.resource_version}
        document = {**wanted.document, "metadata": metadata}
        written = await skr.replace(resource, name, document, namespace, field_manager=FIELD_MANAGER)
    return written


async def _delete(skr: Client, key: Key) -> None:
    kind, name = key
    with suppress(NotFound):  # a user was faster
        await skr.delete(RESOURCES[kind], name, names.SKR_NAMESPACE)
