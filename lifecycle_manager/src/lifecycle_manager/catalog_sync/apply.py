"""Carries out one step for the catalog in an SKR, and returns the snapshot with its outcome."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from kube_runtime import (
    Applier,
    Client,
    ClusterUnreachable,
    Informer,
    KubeError,
    KubernetesObject,
    NotFound,
    Resource,
    Revision,
)
from lifecycle_manager.catalog_sync import plan
from lifecycle_manager.catalog_sync.plan import is_as_wanted
from lifecycle_manager.catalog_sync.record import Record, fingerprint
from lifecycle_manager.catalog_sync.snapshot import RemovalSnapshot, SyncSnapshot
from lifecycle_manager.catalog_sync.status import CatalogCondition, ItemRefused
from lifecycle_manager.catalog_sync.wanted import Item, Key, WantedItem
from lifecycle_manager.kyma_conditions import CATALOG, write_condition
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager.takeover import former
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, crds, names

FIELD_MANAGER = "lifecycle-manager-catalog"
OWN = f"{names.MANAGED_BY} in ({names.LIFECYCLE_MANAGER}, {former.MANAGED_BY})"
RESOURCES: dict[str, Resource[Any]] = {
    ModuleTemplate.KIND: MODULE_TEMPLATES,
    ModuleReleaseMeta.KIND: MODULE_RELEASE_METAS,
}
CONCURRENT_WRITES = 16
T = TypeVar("T")
log = structlog.get_logger("catalog_sync")

_CRD_DOCUMENTS = [crds.crd_for(kind) for kind in (ModuleTemplate, ModuleReleaseMeta)]
CRDS = tuple(KubernetesObject.of(document) for document in _CRD_DOCUMENTS)
CRDS_DIGEST = hashlib.blake2b(msgspec.json.encode(_CRD_DOCUMENTS, order="sorted"), digest_size=8).hexdigest()


@dataclass(frozen=True, eq=False)
class KymaWrites:
    """The write of this domain to the Kyma in KCP."""

    kcp: Client
    kymas: Informer[Kyma]
    now: Callable[[], datetime]

    async def report(self, kyma: Kyma, condition: CatalogCondition, record: Record | None = None) -> None:
        """Write the condition, and the record unless that is None, where they differ. Raises KubeError."""
        records = {"catalog": kyma.status.records.catalog if record is None else str(record)}
        written = await write_condition(
            self.kcp, kyma, CATALOG, condition, now=self.now(), field_manager=FIELD_MANAGER, records=records
        )
        if written is not None:
            self.kymas.wrote(written)


@dataclass(frozen=True, eq=False)
class Sync:
    """Steps that keep a catalog up to date. `skr` is the client of the SKR."""

    skr: Client

    async def apply(self, seen: SyncSnapshot, step: plan.SyncStep) -> SyncSnapshot:
        """Carry one step out. Raises KubeError."""
        match step:
            case plan.ApplyCRDs():
                seen = await self._apply_crds(seen)
            case plan.CheckResourceVersions(kinds):
                seen = await self._check(seen, kinds)
            case plan.ReadObjects(kinds):
                seen = await self._read(seen, kinds)
            case plan.WriteObjects():
                seen = await self._write(seen, step)
        return seen

    async def _apply_crds(self, seen: SyncSnapshot) -> SyncSnapshot:
        applied = await Applier(self.skr, field_manager=FIELD_MANAGER).apply(CRDS, prune=False)
        applied.raise_first_failure()
        created = {each.entry.name for each in applied.outcomes if each.action == "created"}
        return replace(
            seen,
            record=replace(seen.record, crds=seen.crds_digest),
            new_kinds=frozenset(kind for kind, resource in RESOURCES.items() if resource.plural_name in created),
            are_crds_missing=False,
            were_crds_missing=seen.are_crds_missing or seen.were_crds_missing,
        )

    async def _check(self, seen: SyncSnapshot, kinds: Iterable[str]) -> SyncSnapshot:
        found = {kind: await _revisions(self.skr, kind, own=True) for kind in kinds}
        changed = (
            kind
            for kind, revisions in found.items()
            if revisions is None or fingerprint(revisions) != seen.record.fingerprint_of(kind)
        )
        return replace(seen, changed_kinds=tuple(changed), are_crds_missing=None in found.values())

    async def _read(self, seen: SyncSnapshot, kinds: Iterable[str]) -> SyncSnapshot:
        live: dict[Key, Item] = {}
        try:
            for kind in kinds:
                listed = await self.skr.list(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OWN)
                live |= {(kind, item.metadata.name): item for item in listed.items}
        except NotFound:
            if seen.were_crds_missing:
                raise
            return replace(seen, changed_kinds=tuple(RESOURCES), are_crds_missing=True)
        return replace(seen, live=live)

    async def _write(self, seen: SyncSnapshot, step: plan.WriteObjects) -> SyncSnapshot:
        """Write the differences. Raises ItemRefused after all objects were tried."""
        writes: dict[Key, Callable[[], Awaitable[Any]]] = {
            **{(each.item.KIND, each.item.metadata.name): partial(_apply, self.skr, each) for each in step.apply},
            **{key: partial(_delete, self.skr, key) for key in step.delete},
        }
        written = await _carry_out(writes)
        if writes:
            log.info("catalog synchronized", server=self.skr.server, applied=len(step.apply), deleted=len(step.delete))
        # The objects as they were written, not as they are by now: a change since then has to be seen as a change.
        left = {key: item for key, item in {**(seen.live or {}), **written}.items() if key not in step.delete}
        record = replace(seen.record, catalog=seen.wanted.digest).with_fingerprints(
            {kind: fingerprint(item for (of, _), item in left.items() if of == kind) for kind in step.kinds}
        )
        return replace(seen, record=record, changed_kinds=())


@dataclass(frozen=True, eq=False)
class Removal:
    """Steps that remove a catalog. `skr` is the client of the SKR."""

    skr: Client

    async def apply(self, seen: RemovalSnapshot, step: plan.RemovalStep) -> RemovalSnapshot:
        """Carry one step out. Raises KubeError."""
        match step:
            case plan.ReadOwnObjects():
                seen = replace(seen, own=await self._known_revisions(RESOURCES, own=True))
            case plan.DeleteObjects(objects):
                await _carry_out({key: partial(_delete, self.skr, key) for key in objects})
                seen = replace(seen, are_deleted=True)
            case plan.ReadRemainingObjects(kinds):
                seen = replace(seen, remaining=await self._known_revisions(kinds, own=False))
            case plan.DeleteCRDs(kinds):
                for kind in kinds:
                    with suppress(NotFound):  # somebody else was faster
                        await self.skr.delete(CUSTOM_RESOURCE_DEFINITIONS, RESOURCES[kind].plural_name)
                seen = replace(seen, deleted_crds=seen.deleted_crds.union(kinds))
            case plan.RemoveFinalizers():
                for resource in RESOURCES.values():
                    await self._remove_finalizers(resource, seen.kyma)
                seen = replace(seen, are_finalizers_removed=True)
        return seen

    async def _known_revisions(self, kinds: Iterable[str], *, own: bool) -> dict[str, tuple[Revision, ...]]:
        """Return the objects of each kind that the SKR knows; those of a CRD that is deleted are deleted with it."""
        found = {kind: await _revisions(self.skr, kind, own=own) for kind in kinds}
        return {kind: revisions for kind, revisions in found.items() if revisions is not None}

    async def _remove_finalizers(self, typed: Resource[Any], kyma: Kyma) -> None:
        resource = Resource.dynamic(typed.group, typed.version, typed.kind, typed.plural, namespaced=True)
        try:
            found = (await self.skr.list(resource, names.SKR_NAMESPACE, label_selector=OWN)).items
        except NotFound:
            return  # the CRD was deleted meanwhile, and its objects with it
        for item in filter(is_held, found):
            await strip_finalizers(self.skr, resource, item, kyma, field_manager=FIELD_MANAGER)


async def _revisions(skr: Client, kind: str, *, own: bool) -> tuple[Revision, ...] | None:
    """Return the objects of a kind, all or those of LM; None where the SKR does not know the kind. Raises KubeError."""
    try:
        if own:
            return await skr.list_revisions(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OWN)
        return await skr.list_revisions(RESOURCES[kind])
    except NotFound:
        return None


async def _carry_out(writes: Mapping[Key, Callable[[], Awaitable[T]]]) -> dict[Key, T]:
    """Carry out writes of objects, CONCURRENT_WRITES at a time, and return their results.

    Raises, after all were tried, the failure to reach the SKR, or else all refusals in one ItemRefused.
    """
    free = asyncio.Semaphore(CONCURRENT_WRITES)
    results: dict[Key, T] = {}
    failures: dict[Key, KubeError] = {}

    async def carry_out(key: Key, write: Callable[[], Awaitable[T]]) -> None:
        async with free:
            try:
                results[key] = await write()
            except KubeError as error:
                failures[key] = error

    async with asyncio.TaskGroup() as tasks:
        for key, write in writes.items():
            tasks.create_task(carry_out(key, write))
    for error in failures.values():
        if isinstance(error, ClusterUnreachable):
            raise error
    if failures:
        raise ItemRefused("; ".join(f"{kind} {name}: {failures[kind, name]}" for kind, name in sorted(failures)))
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
