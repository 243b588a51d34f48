"""Brings the catalog to the SKR of one Kyma, keeps it there as it should be, and takes it away with the Kyma."""

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

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
    ObjectKey,
    Resource,
    Result,
)
from lifecycle_manager.catalog_sync.differences import Key, differences, is_as_wanted
from lifecycle_manager.catalog_sync.record import ANNOTATION, Record, fingerprint
from lifecycle_manager.catalog_sync.wanted import Catalogs, Item, WantedCatalog, WantedItem, is_synchronized
from lifecycle_manager.kcp_writes import patch_metadata
from lifecycle_manager.kyma_conditions import CATALOG as CONDITION
from lifecycle_manager.kyma_conditions import CATALOG_SYNC_FAILED as FAILED
from lifecycle_manager.kyma_conditions import CATALOG_SYNCED as SYNCED
from lifecycle_manager.kyma_conditions import REMOVED, is_introduced, write_condition
from lifecycle_manager.kyma_conditions import is_event_path_faulty as is_faulty
from lifecycle_manager.kyma_conditions import watcher_removed as watcher_left
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
)
from lifecycle_manager.skr import AccessSecretMissing, Connections, SkrAccessError, failure_of
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import (
    ConditionStatus,
    Kyma,
    ModuleReleaseMeta,
    ModuleTemplate,
    crds,
    find,
    names,
)

FIELD_MANAGER = "lifecycle-manager-catalog"
OURS = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
RESOURCES: dict[str, Resource[Any]] = {
    ModuleTemplate.KIND: MODULE_TEMPLATES,
    ModuleReleaseMeta.KIND: MODULE_RELEASE_METAS,
}
AT_ONCE = 16
SILENT_SECONDS = 30.0
log = structlog.get_logger("catalog")


class ItemRefused(KubeError):
    """The cluster refused an object of the catalog; the others were brought all the same."""


@dataclass(eq=False)
class CatalogReconciler:
    """Keeps one cluster's catalog. The key is that of the Kyma in KCP.

    Once in `interval_seconds` the revisions of one kind are asked for, in turns; an event about a catalog object has
    that done at once (`wake`). Of a Kyma that is being deleted for longer than `purge`, finalizers that somebody else
    put on objects of the catalog are taken off.
    """

    kcp: Client
    connections: Connections
    kymas: Informer[Kyma]
    offers: Offers
    clock: Callable[[], datetime]
    interval_seconds: float = 600.0
    leaving_seconds: float = 5.0
    purge: timedelta | None = None
    catalogs: Catalogs = field(default_factory=Catalogs)
    definitions: tuple[KubernetesObject, ...] = field(init=False)
    definitions_digest: str = field(init=False)
    _due: dict[ObjectKey, float] = field(default_factory=dict, init=False)
    _suspected: dict[ObjectKey, set[str]] = field(default_factory=dict, init=False)
    _next_kind: dict[ObjectKey, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        documents = [crds.crd_for(kind) for kind in (ModuleTemplate, ModuleReleaseMeta)]
        self.definitions = tuple(KubernetesObject.of(document) for document in documents)
        encoded = msgspec.json.encode(documents, order="sorted")
        self.definitions_digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()

    def wake(self, key: ObjectKey, kind: str) -> None:
        """Have the next reconcile look at one kind, since somebody changed an object of it."""
        self._suspected.setdefault(key, set()).add(kind)

    def forget(self, key: ObjectKey) -> None:
        """Drop what this process remembers of it: it is gone, or another process has looked after it meanwhile."""
        for memory in (self._due, self._suspected, self._next_kind):
            memory.pop(key, None)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this cluster's catalog needs next. Raises KubeError or SkrAccessError after the condition says so."""
        kyma = self.kymas.cache.get(key)
        if kyma is None:
            self.forget(key)
            return Result()
        if kyma.metadata.being_deleted:
            return await self._leave(kyma)
        if kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true" or not is_introduced(kyma):
            return Result()  # the Kyma comes first; its change wakes this key
        wanted = self.catalogs.for_labels(self.offers.current(), kyma.metadata.labels)
        suspected = self._suspected.pop(key, set())
        if self._is_settled(kyma, wanted) and not suspected and not self._is_due(key):
            return Result(requeue_after=max(self._due[key] - time.monotonic(), 0.0))
        try:
            async with self.connections.to(kyma.metadata.name) as skr:
                if find(kyma.status.conditions, CONDITION) is None:
                    await self._announce(kyma)
                record = await self._bring_in_order(key, skr, Record.of(kyma), wanted, suspected)
        except (KubeError, SkrAccessError) as error:
            self._suspected.setdefault(key, set()).update(suspected)
            failure = failure_of(error)
            reason = FAILED if isinstance(error, ItemRefused) else failure.reason
            await self._say(kyma, "False", reason, str(error) if isinstance(error, ItemRefused) else failure.message)
            raise
        await self._keep(kyma, record)
        await self._say(kyma, "True", SYNCED, _what_is_there(kyma, wanted))
        self._due[key] = time.monotonic() + self._interval(kyma)
        return Result(requeue_after=self._interval(kyma))

    def _is_settled(self, kyma: Kyma, wanted: WantedCatalog) -> bool:
        record, condition = Record.of(kyma), find(kyma.status.conditions, CONDITION)
        said = condition is not None and condition.status == "True"
        return said and (record.definitions, record.catalog) == (self.definitions_digest, wanted.digest)

    def _is_due(self, key: ObjectKey) -> bool:
        """Tell whether it is time to ask for revisions; a new process spreads the first time over the interval."""
        if key not in self._due:
            self._due[key] = time.monotonic() + self.interval_seconds * random.random()  # noqa: S311 - no secret
        return time.monotonic() >= self._due[key]

    def _interval(self, kyma: Kyma) -> float:
        return min(self.interval_seconds, SILENT_SECONDS) if is_faulty(kyma) else self.interval_seconds

    async def _bring_in_order(
        self, key: ObjectKey, skr: Client, record: Record, wanted: WantedCatalog, suspected: Iterable[str]
    ) -> Record:
        new: frozenset[str] = frozenset()
        if record.definitions != self.definitions_digest:
            new = await self._define(skr)
            record = replace(record, definitions=self.definitions_digest)
        if record.catalog == wanted.digest:
            kinds = tuple(sorted(suspected)) or (self._whose_turn(key),)
            changed = [kind for kind in kinds if await self._was_changed(skr, kind, record)]
        else:
            changed = list(RESOURCES)
        if changed:
            try:
                prints = await self._sync(skr, wanted, changed, new)
            except NotFound:  # somebody deleted a definition
                prints = await self._sync(skr, wanted, RESOURCES, await self._define(skr))
            record = replace(record, catalog=wanted.digest).with_prints(prints)
        return record

    def _whose_turn(self, key: ObjectKey) -> str:
        turn = self._next_kind.get(key, 0)
        self._next_kind[key] = turn + 1
        return tuple(RESOURCES)[turn % len(RESOURCES)]

    async def _was_changed(self, skr: Client, kind: str, record: Record) -> bool:
        try:
            revisions = await skr.list_revisions(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OURS)
        except NotFound:
            await self._define(skr)
            return True
        return fingerprint(revisions) != record.print_of(kind)

    async def _define(self, skr: Client) -> frozenset[str]:
        """Bring the definitions, and return the kinds that the cluster did not know: there is nothing of them yet."""
        applied = await Applier(skr, field_manager=FIELD_MANAGER).apply(self.definitions, prune=False)
        applied.raise_first_failure()
        created = {each.entry.name for each in applied.outcomes if each.action == "created"}
        return frozenset(kind for kind, resource in RESOURCES.items() if resource.plural_name in created)

    async def _sync(
        self, skr: Client, wanted: WantedCatalog, kinds: Iterable[str], new: frozenset[str]
    ) -> dict[str, str]:
        """Send the differences, and return the fingerprints of what we left there. Raises ItemRefused at the end.

        Of kinds that are new in the cluster nothing is read: an API server has those who list one right after its
        definition come again in a second.
        """
        known = [kind for kind in kinds if kind not in new]
        live = {(kind, item.metadata.name): item for kind in known for item in await _read(skr, kind)}
        found = differences(wanted, live, kinds)
        places = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            applying = [tasks.create_task(_apply(skr, each, places)) for each in found.apply]
            deleting = [tasks.create_task(_delete(skr, key, places)) for key in found.delete]
        if found.apply or found.delete:
            log.info("catalog brought in order", server=skr.server, applied=len(applying), deleted=len(deleting))
        brought = [task.result() for task in applying]
        outcomes = (*brought, *(task.result() for task in deleting))
        _raise_failures(each for each in outcomes if isinstance(each, KubeError))
        # Not what is there by now: what somebody changed since has to be seen as a change.
        left = {key: item for key, item in live.items() if key not in found.delete}
        left |= {(each.KIND, each.metadata.name): each for each in brought if not isinstance(each, KubeError)}
        return {kind: fingerprint(item for (of, _), item in left.items() if of == kind) for kind in kinds}

    async def _leave(self, kyma: Kyma) -> Result:
        """Take the catalog away once it is its turn."""
        condition = find(kyma.status.conditions, CONDITION)
        if condition is None or condition.reason == REMOVED or not watcher_left(kyma):
            return Result()
        try:
            async with self.connections.to(kyma.metadata.name) as skr:
                left = [await _remove(skr, kind) for kind in RESOURCES]
                if any(left) and self._may_purge(kyma):
                    for kind in RESOURCES:
                        await _purge(skr, kind, kyma)
        except AccessSecretMissing:
            return Result()
        except (KubeError, SkrAccessError) as error:
            failure = failure_of(error)
            await self._say(kyma, "False", failure.reason, failure.message)
            raise
        if any(left):
            await self._say(kyma, "False", "Removing", f"waits for {sum(left)} objects of the catalog")
            return Result(requeue_after=self.leaving_seconds)
        await self._say(kyma, "False", REMOVED, "the catalog is gone from the cluster")
        return Result()

    def _may_purge(self, kyma: Kyma) -> bool:
        since = kyma.metadata.deletion_timestamp
        return since is not None and self.purge is not None and self.clock() - since >= self.purge

    async def _announce(self, kyma: Kyma) -> None:
        """Say that the catalog comes before anything of it is there: whoever dies in between leaves nothing unknown."""
        await self._say(kyma, "False", "Syncing", "the catalog is being brought to the cluster")

    async def _keep(self, kyma: Kyma, record: Record) -> None:
        if Record.of(kyma) != record:
            patch = {"annotations": {ANNOTATION: str(record)}}
            await patch_metadata(self.kcp, KYMAS, kyma.metadata, patch, field_manager=FIELD_MANAGER)

    async def _say(self, kyma: Kyma, status: ConditionStatus, reason: str, message: str) -> None:
        said = (status, reason, message)
        await write_condition(self.kcp, kyma, CONDITION, said, now=self.clock(), field_manager=FIELD_MANAGER)


def _what_is_there(kyma: Kyma, wanted: WantedCatalog) -> str:
    if is_synchronized(kyma.metadata.labels):
        return f"{len(wanted.items)} objects of the catalog are in the cluster"
    return f"the catalog in the cluster is left as it is, since the Kyma has the label {names.SYNC}=false"


async def _read(skr: Client, kind: str) -> tuple[Item, ...]:
    listed = await skr.list(RESOURCES[kind], names.SKR_NAMESPACE, label_selector=OURS)
    return listed.items


async def _apply(skr: Client, wanted: WantedItem, places: asyncio.Semaphore) -> Item | KubeError:
    """Bring one object and return it as it is then, or what came in between."""
    item = wanted.item
    resource, name = RESOURCES[item.KIND], item.metadata.name
    async with places:
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
    """Write an object whole: an apply leaves fields that somebody else has added."""
    metadata = {**wanted.document["metadata"], "resourceVersion": live.metadata.resource_version}
    document = {**wanted.document, "metadata": metadata}
    written: Item = await skr.replace(
        resource, live.metadata.name, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER
    )
    return written


async def _delete(skr: Client, key: Key, places: asyncio.Semaphore) -> KubeError | None:
    """Delete one object; return what came in between."""
    kind, name = key
    async with places:
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
    """Raise what kept the cluster from being asked, or else all that it refused at once."""
    found = tuple(failures)
    for each in found:
        if not isinstance(each, ItemRefused):
            raise each
    if found:
        raise ItemRefused("; ".join(str(each) for each in found))


async def _purge(skr: Client, kind: str, kyma: Kyma) -> None:
    """Let our objects of a kind go that are being deleted and that somebody holds."""
    typed = RESOURCES[kind]
    resource = Resource.dynamic(typed.group, typed.version, typed.kind, typed.plural, namespaced=True)
    try:
        found = (await skr.list(resource, names.SKR_NAMESPACE, label_selector=OURS)).items
    except NotFound:
        return  # the kind went meanwhile, and all of it
    for item in filter(is_held, found):
        await strip_finalizers(skr, resource, item, kyma, field_manager=FIELD_MANAGER)


async def _remove(skr: Client, kind: str) -> int:
    """Delete our objects of a kind, and its definition where nobody else has any; return how many are still there."""
    resource = RESOURCES[kind]
    places = asyncio.Semaphore(AT_ONCE)
    try:
        ours = await skr.list_revisions(resource, names.SKR_NAMESPACE, label_selector=OURS)
        async with asyncio.TaskGroup() as tasks:
            deleting = [tasks.create_task(_delete(skr, (kind, each.metadata.name), places)) for each in ours]
        _raise_failures(failure for task in deleting if (failure := task.result()) is not None)
        left = await skr.list_revisions(resource)
        still_ours = {each.metadata.uid for each in ours} & {each.metadata.uid for each in left}
        if not left:
            await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{resource.plural}.{resource.group}")
    except NotFound:
        return 0  # the definition is gone, and its objects with it
    return len(still_ours)
