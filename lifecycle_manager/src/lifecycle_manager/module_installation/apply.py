"""Carries out one step of a Manifest's plan. Every step may be repeated."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import structlog

from kube_runtime import (
    AlreadyExists,
    ApplyResult,
    Client,
    ClusterUnreachable,
    Informer,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectKey,
)
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.contract.resources import FIELD_MANAGER, MANIFESTS, Secret
from lifecycle_manager.module_catalog import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import plan as planned
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.pull_secrets import DEPLOYER
from lifecycle_manager.module_installation.reading import (
    KindObject,
    default_crs,
    module_kinds,
    objects_of_crd,
    objects_of_kinds,
    read_manager,
)
from lifecycle_manager.module_installation.rendering import Renderings
from lifecycle_manager.module_installation.snapshot import (
    Memory,
    Options,
    Removal,
    Snapshot,
    holder,
    inventory_of,
)
from lifecycle_manager.module_installation.status import CrView, begun
from lifecycle_manager.object_set import Identity, Record, SkrObjects
from lifecycle_manager.object_set.apply import hand_over, release
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager.object_set.inventory import identities, without
from lifecycle_manager.object_set.ownership import Holder, SetOwner, holders_of, is_managed_by_another, next_owners
from lifecycle_manager.object_set.repairs import Repairs
from lifecycle_manager.object_set.reporting import set_owner
from lifecycle_manager.object_set.steps import Step
from lifecycle_manager.oci import ObjectStore, SourceError
from lifecycle_manager.skr import AccessSecretMissing, Announcements
from lifecycle_manager.skr.finalizers import strip_finalizers
from lifecycle_manager_api import Manifest, State

log = structlog.get_logger("manifest")


REQUEUE_REASONS: Mapping[type[Step], str] = {
    planned.RecordIntent: "manifest_add_finalizer",
    planned.PruneObjects: "manifest_prune_diff_not_finished",
    planned.ApplyObjects: "manifest_sync_resources_enqueue_required",
    planned.DeleteDefaultCRs: "manifest_pre_delete_enqueue_required",
    planned.ReleaseObjects: "manifest_labels_removal",
}
"""Upstream's names in the metric of requeues, by what a reconcile does."""


@dataclass(slots=True)
class ManifestState:
    """What this process remembers of a Manifest from reconcile to reconcile.

    - `inventory`: what is in the SKR or about to be, from before the status says so
    - `released`: what it has handed over to other modules, from before the status says so
    - `settled`: the rendering that is completely applied; empty where something is left to do
    - `check_all`: every object is to be read: somebody may have changed one; `checked_at` is when that was done last
    """

    announcements: Announcements = field(default_factory=Announcements)
    repairs: Repairs = field(default_factory=Repairs)
    objects: SkrObjects | None = None
    inventory: tuple[InventoryEntry, ...] = ()
    released: frozenset[Identity] = frozenset()
    settled: str = ""
    check_all: bool = False
    checked_at: float = float("-inf")


@dataclass(eq=False)
class Neighbours:
    """The other modules of an SKR: what they have, and the turns in which objects are handed over to them."""

    manifests: Informer[Manifest]
    state_of: Callable[[ObjectKey], ManifestState | None]
    enqueue: Callable[[ObjectKey], None]
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    def of(self, manifest: Manifest) -> tuple[Holder, ...]:
        """Return the other modules of the same SKR that are not being deleted."""
        own, nothing = MANIFESTS.key_of(manifest), ManifestState()
        others = self.manifests.by_index(MANIFESTS_BY_KYMA, kyma_of_manifest(manifest))
        known = ((each, self.state_of(MANIFESTS.key_of(each)) or nothing) for each in others)
        found = (holder(each, state.inventory, state.released) for each, state in known)
        return tuple(each for each in found if each is not None and each.key != own)

    def turn(self, manifest: Manifest) -> asyncio.Lock:
        """Return the lock of the SKR: no two modules hand an object over to each other."""
        return self._turns.setdefault(kyma_of_manifest(manifest), asyncio.Lock())

    def notify(self, manifest: Manifest, gone: Collection[InventoryEntry]) -> None:
        """Enqueue the other modules that have objects which this one no longer has."""
        for key in holders_of(gone, self.of(manifest)) if gone else ():
            self.enqueue(key)


@dataclass(frozen=True, eq=False)
class Services:
    """What all reconciles of Manifests share. `data` are the Secrets of KCP for the module DEPLOYER."""

    neighbours: Neighbours
    store: ObjectStore
    logins: Logins
    renderings: Renderings
    data: Informer[Secret] | None
    options: Options


@dataclass(eq=False)
class Steps:
    """The steps of one reconcile."""

    services: Services
    record: Record[Manifest]
    state: ManifestState
    skr: LazySkrClient
    reasons: list[str] = field(default_factory=list, init=False)

    @property
    def manifest(self) -> Manifest:
        """The Manifest as the steps have written it."""
        return self.record.item

    @property
    def _owner(self) -> SetOwner:
        return set_owner(self.manifest, module_of_manifest(self.manifest))

    async def apply(self, seen: Snapshot, step: Step) -> Snapshot:
        """Carry a step out and return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        if (reason := REQUEUE_REASONS.get(type(step))) is not None:
            self.reasons.append(reason)
        return await self._methods[type(step)](self, seen, step)

    async def _render(self, seen: Snapshot, step: planned.Render) -> Snapshot:
        logins, store = self.services.logins, self.services.store
        try:
            objects = await store.objects(
                step.source, partial(logins.login, self.manifest), logins.credentials_scope(self.manifest)
            )
            spec, module = self.manifest.spec, module_of_manifest(self.manifest)
            data = self.services.data.list() if self.services.data is not None and module == DEPLOYER else None
            rendering = self.services.renderings.of(objects, spec.localized_images, manager=spec.manager, data=data)
            return replace(seen, rendering=rendering)
        except SourceError as error:
            return replace(seen, source_error=error)

    async def _objects(self) -> SkrObjects:
        """Return what applies the objects. Another client may lead to another cluster: all is applied anew."""
        skr, state, namespace = await self.skr.client(), self.state, self.services.options.namespace
        objects = SkrObjects.of(state.objects, skr, owner=self._owner, namespace=namespace)
        if objects is not state.objects:
            state.objects, state.settled, state.checked_at = objects, "", float("-inf")
        return objects

    async def _connect(self, seen: Snapshot, _: planned.Connect) -> Snapshot:
        state, interval = self.state, self.services.options.interval_seconds
        is_new, wanted = state.objects is None, _fingerprint(seen)
        objects = await self._objects()
        if is_new and _was_ready(self.manifest):
            # A new process reads every object some time within the interval, not those of the whole fleet at once.
            state.settled, state.inventory = wanted, inventory_of(self.manifest)
            state.checked_at = seen.seconds - interval * random.random()  # noqa: S311 - no secret
        check_all = state.check_all or seen.seconds - state.checked_at >= interval
        memory = Memory(state.settled, check_all, state.checked_at, bool(objects.namespaces))
        return replace(seen, memory=memory, inventory=state.inventory if state.settled == wanted else seen.inventory)

    async def _resolve(self, seen: Snapshot, _: planned.ResolveObjects) -> Snapshot:
        of_known_kinds, own_kinds = (
            (seen.rendering.of_known_kinds, seen.rendering.own_kinds) if seen.rendering else ((), ())
        )
        known = await (await self._objects()).applier.intended(of_known_kinds, ())
        wanted = frozenset({*known, *own_kinds})
        self.state.released -= identities(wanted)
        return replace(seen, wanted=wanted, others=self.services.neighbours.of(self.manifest))

    async def _record_intent(self, seen: Snapshot, step: planned.RecordIntent) -> Snapshot:
        await self.record.intend(begun(self.manifest, sorted(step.entries)))
        self.state.inventory = step.entries
        return replace(seen, manifest=self.manifest, inventory=step.entries)

    async def _hand_over(self, seen: Snapshot, step: planned.HandOver) -> Snapshot:
        neighbours = self.services.neighbours
        async with neighbours.turn(self.manifest):
            given = next_owners(step.objects, neighbours.of(self.manifest))
            await hand_over(await self.skr.client(), self._owner, given)
            self.state.released |= identities(given)
        self.state.inventory = inventory = without(seen.inventory, given)
        neighbours.notify(self.manifest, given)
        return replace(seen, inventory=inventory, others=neighbours.of(self.manifest))

    async def _create_namespace(self, seen: Snapshot, step: planned.CreateNamespace) -> Snapshot:
        await (await self._objects()).create_namespaces([step.name])
        return replace(seen, namespace_created=True)

    async def _apply(self, seen: Snapshot, step: planned.ApplyObjects) -> Snapshot:
        state, others = self.state, self.services.neighbours.of(self.manifest)
        objects = await self._objects()
        state.inventory, state.settled = step.inventory, ""
        checks_all = step.recheck is True
        if checks_all:
            state.check_all = False  # what is enqueued from here on may have seen something newer
        result = await objects.apply(step, lambda entry, live: is_managed_by_another(entry, live, others))
        if checks_all:
            state.checked_at = seen.seconds
        if result.changed:
            self._log_applied(result)
        memory = replace(seen.memory or Memory(), checked_at=state.checked_at)
        return replace(self._with_result(seen, result), memory=memory, others=others)

    async def _prune(self, seen: Snapshot, step: planned.PruneObjects) -> Snapshot:
        result = await (await self._objects()).prune(step)
        self.services.neighbours.notify(self.manifest, without(step.entries, result.inventory))
        return replace(self._with_result(seen, result), pruned=True)

    def _with_result(self, seen: Snapshot, result: ApplyResult) -> Snapshot:
        self.state.inventory = result.inventory
        self.state.settled = _fingerprint(seen) if planned.is_settled(result) else ""
        return replace(seen, applied=result, inventory=result.inventory)

    async def _list_objects_of_crds(self, seen: Snapshot, step: planned.ListObjectsOfCRDs) -> Snapshot:
        skr = await self.skr.client()
        found = {crd: await objects_of_crd(skr, crd.name) for crd in step.crds}
        return replace(seen, crd_objects={**seen.crd_objects, **found})

    async def _read_managers(self, seen: Snapshot, step: planned.ReadManagers) -> Snapshot:
        skr = await self.skr.client()
        named = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in step.managers]
        optional = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in step.optional]
        return replace(seen, managers=(*named, *(each for each in optional if each.readiness is not None)))

    async def _read_module_cr(self, seen: Snapshot, step: planned.ReadModuleCR) -> Snapshot:
        view = await _module_cr(await self.skr.client(), step.wanted, was_created=step.was_created)
        return replace(seen, module_cr=view)

    async def _release(self, seen: Snapshot, step: planned.ReleaseObjects) -> Snapshot:
        others = [each for each in self.services.neighbours.of(self.manifest) if each.manages]
        shared = next_owners(step.objects, others)
        await release(await self.skr.client(), self._owner, without(step.objects, shared))
        self.services.neighbours.notify(self.manifest, tuple(shared))
        self.state.objects = None  # managed again, each object is read
        return replace(seen, released=True)

    async def _find_module_crs(self, seen: Snapshot, step: planned.FindModuleCRs) -> Snapshot:
        try:
            skr = await self.skr.client()
        except AccessSecretMissing:
            return replace(seen, cluster_gone=True)
        kinds = await module_kinds(skr, step.inventory, step.wanted)
        found = await default_crs(skr, self.manifest, step.wanted, kinds, step.inventory)
        others = self.services.neighbours.of(self.manifest)
        return replace(seen, removal=Removal(kinds, found), others=others)

    async def _delete_default_crs(self, seen: Snapshot, step: planned.DeleteDefaultCRs) -> Snapshot:
        skr, found = await self.skr.client(), _removal(seen).default_crs
        deleted = {cr: await _delete(skr, cr, live) for cr, live in found if cr in step.crs}
        left = ((cr, deleted.get(cr, live)) for cr, live in found)
        return _removing(seen, default_crs=tuple((cr, live) for cr, live in left if live is not None))

    async def _check_managers_missing(self, seen: Snapshot, step: planned.CheckManagersMissing) -> Snapshot:
        skr = await self.skr.client()
        views = [await read_manager(skr, each) for each in step.managers]
        return _removing(seen, manager_missing=bool(views) and all(each.readiness is None for each in views))

    async def _strip_finalizers(self, seen: Snapshot, step: planned.StripFinalizers) -> Snapshot:
        for cr, live in step.crs:
            await strip_finalizers(await self.skr.client(), cr.resource, live, self.manifest)
        left = tuple(each for each in _removal(seen).default_crs if each not in step.crs)
        return _removing(seen, default_crs=left)

    async def _list_users_objects(self, seen: Snapshot, step: planned.ListUsersObjects) -> Snapshot:
        return _removing(seen, users_objects=await objects_of_kinds(await self.skr.client(), step.kinds, step.own))

    async def _delete_objects(self, seen: Snapshot, step: planned.DeleteObjects) -> Snapshot:
        result = await (await self._objects()).applier.delete(step.inventory)
        self.state.settled = ""
        self.services.neighbours.notify(self.manifest, without(step.inventory, result.inventory))
        result.raise_first_failure()
        self.state.inventory = tuple(sorted({*without(seen.inventory, step.inventory), *result.inventory}))
        removal = planned.after_deleting(_removal(seen), result.inventory)
        return replace(seen, inventory=self.state.inventory, removal=removal)

    def _log_applied(self, result: ApplyResult) -> None:
        log.info(
            "module applied",
            kyma=kyma_of_manifest(self.manifest),
            module=module_of_manifest(self.manifest),
            version=self.manifest.spec.version,
            objects=len(result.inventory),
            failed=len(result.failed),
        )

    _methods: ClassVar[Mapping[type[Step], Callable[[Any, Snapshot, Any], Awaitable[Snapshot]]]] = {
        planned.Render: _render,
        planned.Connect: _connect,
        planned.ResolveObjects: _resolve,
        planned.RecordIntent: _record_intent,
        planned.HandOver: _hand_over,
        planned.CreateNamespace: _create_namespace,
        planned.ApplyObjects: _apply,
        planned.ListObjectsOfCRDs: _list_objects_of_crds,
        planned.PruneObjects: _prune,
        planned.ReadManagers: _read_managers,
        planned.ReadModuleCR: _read_module_cr,
        planned.ReleaseObjects: _release,
        planned.FindModuleCRs: _find_module_crs,
        planned.DeleteDefaultCRs: _delete_default_crs,
        planned.CheckManagersMissing: _check_managers_missing,
        planned.StripFinalizers: _strip_finalizers,
        planned.ListUsersObjects: _list_users_objects,
        planned.DeleteObjects: _delete_objects,
    }


def _was_ready(manifest: Manifest) -> bool:
    """Tell whether a module is in the cluster as its Manifest wants it. Its deletion is a generation of its own."""
    status, metadata = manifest.status, manifest.metadata
    return status.state is State.READY and status.observed_generation == metadata.generation - metadata.being_deleted


def _fingerprint(seen: Snapshot) -> str:
    return seen.rendering.fingerprint if seen.rendering is not None else ""


def _removal(seen: Snapshot) -> Removal:
    return seen.removal or Removal(())


def _removing(seen: Snapshot, **outcome: Any) -> Snapshot:
    return replace(seen, removal=replace(_removal(seen), **outcome))


async def _delete(skr: Client, cr: KindObject, live: JsonObject) -> JsonObject | None:
    """Delete a default Module CR; return it while it still exists."""
    try:
        uid = live["metadata"]["uid"]
        return await skr.delete_and_see(cr.resource, cr.name, cr.namespace or None, uid=uid)
    except NotFound:
        return None


async def _module_cr(skr: Client, wanted: DefaultCr, *, was_created: bool) -> CrView:
    """Read the default Module CR, and create it if that was never done."""
    try:
        resource = await skr.mapper.resource(wanted.api_version, wanted.kind)
        try:
            live = await skr.get(resource, wanted.name, wanted.namespace or None)
        except NotFound:
            if was_created:
                return CrView(wanted, None)
            live = await skr.create(resource, wanted.document, wanted.namespace or None, field_manager=FIELD_MANAGER)
        return CrView(wanted, live)
    except ClusterUnreachable:
        raise
    except AlreadyExists:
        return CrView(wanted, {})  # a user was faster
    except (KindUnknown, KubeError, ValueError) as error:
        return CrView(wanted, None, refused=str(error), created=was_created)
