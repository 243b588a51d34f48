"""Carries out one step for the catalog in an SKR, and returns the snapshot with its outcome."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
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
from lifecycle_manager.catalog_sync.record import fingerprint
from lifecycle_manager.catalog_sync.snapshot import RemovalSnapshot, SyncSnapshot
from lifecycle_manager.catalog_sync.status import CatalogCondition, ItemRefused
from lifecycle_manager.catalog_sync.wanted import Item, Key, WantedItem
from lifecycle_manager.kcp_writes import patch_metadata
from lifecycle_manager.kyma_changes import CATALOG_RECORD
from lifecycle_manager.kyma_conditions import CATALOG, write_condition
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, crds, names

FIELD_MANAGER = "lifecycle-manager-catalog"
OWN = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
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
    """Writes of this domain to the Kyma in KCP."""

    kcp: Client
    kymas: Informer[Kyma]
    now: Callable[[], datetime]

    async def set_condition(self, kyma: Kyma, condition: CatalogCondition) -> Kyma:
        """Write the condition where it differs, and return the Kyma. Raises KubeError."""
        written = await write_condition(self.kcp, kyma, CATALOG, condition, now=self.now(), field_manager=FIELD_MANAGER)
        return self._wrote(written) if written is not None else kyma

    async def save_record(self, kyma: Kyma, record: object) -> Kyma:
        """Write the record, and return the Kyma. Raises KubeError."""
        patch = {"annotations": {CATALOG_RECORD: str(record)}}
        return self._wrote(await patch_metadata(self.kcp, KYMAS, kyma.metadata, patch, field_manager=FIELD_MANAGER))

    def _wrote(self, kyma: Kyma) -> Kyma:
        self.kymas.wrote(kyma)
        return kyma


@dataclass(frozen=True, eq=False)
class Sync:
    """Steps that keep a catalog up to date. `skr` is the client of the SKR."""

    skr: Client
    kyma: KymaWrites

    async def apply(self, seen: SyncSnapshot, step: plan.SyncStep) -> SyncSnapshot:
        """Carry one step out. Raises KubeError."""
        match step:
            case plan.SetCondition(condition):
                seen = replace(seen, kyma=await self.kyma.set_condition(seen.kyma, condition))
            case plan.ApplyCRDs():
                seen = await self._apply_crds(seen)
            case plan.CheckResourceVersions(kinds):
                seen = await self._check(seen, kinds)
            case plan.ReadObjects(kinds):
                seen = await self._read(seen, kinds)
            case plan.WriteObjects():
                seen = await self._write(seen, step)
            case plan.SaveRecord(record):
                seen = replace(seen, kyma=await self.kyma.save_record(seen.kyma, record))
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
        changed: list[str] = []
        missing = False
        for kind in kinds:
            try:
                revisions = await _own_revisions(self.skr, kind)
            except NotFound:
                missing = True
                changed.append(kind)
                continue
            if fingerprint(revisions) != seen.record.fingerprint_of(kind):
                changed.append(kind)
        return replace(seen, changed_kinds=tuple(changed), are_crds_missing=missing)

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
        applied = await _concurrently(lambda each: _apply(self.skr, each), step.apply)
        deleted = await _concurrently(lambda key: _delete(self.skr, key), step.delete)
        if applied or deleted:
            log.info("catalog synchronized", server=self.skr.server, applied=len(applied), deleted=len(deleted))
        _raise_failures(each for each in (*applied, *deleted) if isinstance(each, KubeError))
        # The objects as they were written, not as they are by now: a change since then has to be seen as a change.
        left = {key: item for key, item in (seen.live or {}).items() if key not in step.delete}
        left |= {(each.KIND, each.metadata.name): each for each in applied if not isinstance(each, KubeError)}
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
                seen = replace(seen, own=await self._revisions(RESOURCES, lambda kind: _own_revisions(self.skr, kind)))
            case plan.DeleteObjects(objects):
                _raise_failures(filter(None, await _concurrently(lambda key: _delete(self.skr, key), objects)))
                seen = replace(seen, are_deleted=True)
            case plan.ReadRemainingObjects(kinds):
                everything = await self._revisions(kinds, lambda kind: self.skr.list_revisions(RESOURCES[kind]))
                seen = replace(seen, remaining=everything)
            case plan.DeleteCRDs(kinds):
                for kind in kinds:
                    await self._delete_crd(RESOURCES[kind])
                seen = replace(seen, deleted_crds=seen.deleted_crds.union(kinds))
            case plan.RemoveFinalizers():
                for resource in RESOURCES.values():
                    await self._remove_finalizers(resource, seen.kyma)
                seen = replace(seen, are_finalizers_removed=True)
        return seen

    async def _revisions(
        self, kinds: Iterable[str], read: Callable[[str], Awaitable[tuple[Revision, ...]]]
    ) -> dict[str, tuple[Revision, ...]]:
        """Return the objects of each kind that the SKR knows."""
        found: dict[str, tuple[Revision, ...]] = {}
        for kind in kinds:
            try:
                found[kind] = await read(kind)
            except NotFound:
                continue  # the CRD is deleted, and its objects with it
        return found

    async def _delete_crd(self, resource: Resource[Any]) -> None:
        try:
            await self.skr.delete(CUSTOM_RESOURCE_DEFINITIONS, resource.plural_name)
        except NotFound:
            return  # somebody else was faster

    async def _remove_finalizers(self, typed: Resource[Any], kyma: Kyma) -> None:
        resource = Resource.dynamic(typed.group, typed.version, typed.kind, typed.plural, namespaced=True)
        try:
            found = (await self.skr.list(resource, names.SKR_NAMESPACE, label_selector=OWN)).items
        except NotFound:
            return  # the CRD was deleted meanwhile, and its objects with it
        for item in filter(is_held, found):
            await strip_finalizers(self.skr, resource, item, kyma, field_manager=FIELD_MANAGER)


async def _own_revisions(skr: Client, kind: str) -> tuple[Revision, ...]:
    return await skr.list_revisions(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OWN)


async def _concurrently(write: Callable[[T], Awaitable[Any]], items: Iterable[T]) -> list[Any]:
    """Return the results of writes, CONCURRENT_WRITES at a time."""
    free = asyncio.Semaphore(CONCURRENT_WRITES)

    async def one(item: T) -> Any:
        async with free:
            return await write(item)

    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(one(item)) for item in items]
    return [task.result() for task in started]


async def _apply(skr: Client, wanted: WantedItem) -> Item | KubeError:
    """Apply one object and return it, or the failure."""
    item = wanted.item
    resource, name = RESOURCES[item.KIND], item.metadata.name
    try:
        applied: Item = await skr.apply(
            resource, name, wanted.document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER
        )
        return applied if is_as_wanted(applied, item) else await _replace(skr, resource, wanted, applied)
    except ClusterUnreachable as error:
        return error
    except KubeError as error:
        return ItemRefused(f"{item.KIND} {name}: {error}")


async def _replace(skr: Client, resource: Resource[Any], wanted: WantedItem, live: Item) -> Item:
    """Replace an object: an apply keeps the fields that others added."""
    metadata = {**wanted.document["metadata"], "resourceVersion": live.metadata.resource_version}
    document = {**wanted.document, "metadata": metadata}
    written: Item = await skr.replace(
        resource, live.metadata.name, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER
    )
    return written


async def _delete(skr: Client, key: Key) -> KubeError | None:
    """Delete one object; return the failure."""
    kind, name = key
    try:
        await skr.delete(RESOURCES[kind], name, names.SKR_NAMESPACE)
    except NotFound:
        return None  # a user was faster
    except ClusterUnreachable as error:
        return error
    except KubeError as error:
        return ItemRefused(f"{kind} {name}: {error}")
    return None


def _raise_failures(failures: Iterable[KubeError]) -> None:
    """Raise the failure to reach the SKR, or else all refusals in one error."""
    found = tuple(failures)
    for each in found:
        if not isinstance(each, ItemRefused):
            raise each
    if found:
        raise ItemRefused("; ".join(str(each) for each in found))
