"""Carries out one step of a Manifest's plan. Every step may be repeated."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec
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
from lifecycle_manager.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.kcp_writes import set_finalizers, write_status
from lifecycle_manager.module_catalog import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import plan as planned
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.plan import Step
from lifecycle_manager.module_installation.reading import (
    ModuleCr,
    default_crs,
    module_kinds,
    objects_of_crd,
    objects_of_kinds,
    read_manager,
)
from lifecycle_manager.module_installation.rendering import Rendering, Renderings
from lifecycle_manager.module_installation.snapshot import (
    Memory,
    Options,
    Removal,
    Snapshot,
    holder,
    inventory_of,
)
from lifecycle_manager.module_installation.status import CrView, begun
from lifecycle_manager.object_set import Identity, Owner, RecordingFailed, SkrObjects
from lifecycle_manager.object_set.apply import apply_objects, create_namespace, hand_over, prune
from lifecycle_manager.object_set.borrowing import BorrowedSkr
from lifecycle_manager.object_set.inventory import identities, without
from lifecycle_manager.object_set.ownership import Holder, heirs, holders_of, is_managed_by_another
from lifecycle_manager.oci import ObjectStore, SourceError
from lifecycle_manager.resources import FIELD_MANAGER, MANIFESTS
from lifecycle_manager.skr import AccessSecretMissing, Announcements
from lifecycle_manager.skr.finalizers import strip_finalizers
from lifecycle_manager_api import Manifest, ManifestStatus, State, names

log = structlog.get_logger("manifest")


@dataclass(slots=True)
class ManifestState:
    """What this process remembers of a Manifest from reconcile to reconcile.

    - `inventory`: what is in the SKR or about to be, from before the status says so
    - `given_up`: what it has handed over to other modules, from before the status says so
    - `settled`: the rendering that is completely applied; empty where something is left to do
    - `check_all`: every object is to be read: somebody may have changed one; `checked_at` is when that was done last
    - `has_namespace`: the shared namespace exists
    """

    announcements: Announcements = field(default_factory=Announcements)
    objects: SkrObjects | None = None
    inventory: tuple[InventoryEntry, ...] = ()
    given_up: frozenset[Identity] = frozenset()
    settled: str = ""
    check_all: bool = False
    checked_at: float = float("-inf")
    has_namespace: bool = False


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
        found = (holder(each, state.inventory, state.given_up) for each, state in known)
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
    """What all reconciles of Manifests share."""

    kcp: Client
    manifests: Informer[Manifest]
    neighbours: Neighbours
    store: ObjectStore
    logins: Logins
    renderings: Renderings
    options: Options


@dataclass(eq=False)
class Steps:
    """The steps of one reconcile. `manifest` is the Manifest as the steps have written it."""

    services: Services
    key: ObjectKey
    manifest: Manifest
    state: ManifestState
    skr: BorrowedSkr

    async def apply(self, seen: Snapshot, step: Step) -> Snapshot:
        """Carry a step out and return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        match step:
            case planned.ReadManagers() | planned.ReadModuleCR() | planned.ListObjectsOfCRDs():
                return await self._read(seen, step)
            case planned.HandOver() | planned.CreateNamespace() | planned.ApplyObjects() | planned.PruneObjects():
                return await self._change(seen, step)
            case (
                planned.FindModuleCRs()
                | planned.DeleteDefaultCRs()
                | planned.CheckManagersMissing()
                | planned.StripFinalizers()
                | planned.ListUsersObjects()
                | planned.DeleteObjects()
            ):
                return await self._remove(seen, step)
            case _:
                return await self._prepare(seen, step)

    async def write(self, status: ManifestStatus) -> None:
        """Write a status if it differs. Raises KubeError."""
        if status != self.manifest.status:
            answer = await write_status(self.services.kcp, MANIFESTS, self.manifest.metadata, status)
            self.services.manifests.wrote(answer)

    async def _prepare(self, seen: Snapshot, step: Step) -> Snapshot:
        match step:
            case planned.Render(source):
                login_for, whose = partial(self.services.logins.login, self.manifest), self.services.logins.whose
                try:
                    objects = await self.services.store.objects(source, login_for, whose(self.manifest))
                    rendering = self.services.renderings.of(objects, self.manifest.spec.localized_images)
                except SourceError as error:
                    return replace(seen, source_error=error)
                return replace(seen, rendering=rendering)
            case planned.Connect(rendering):
                return await self._connect(seen, rendering)
            case planned.AddFinalizer():
                await self._recorded(self._add_finalizer())
                return replace(seen, manifest=self.manifest)
            case planned.ResolveObjects(rendering):
                known = await (await self._objects()).applier.intended(rendering.of_known_kinds, ())
                wanted = frozenset({*known, *rendering.own_kinds})
                self.state.given_up -= identities(wanted)
                return replace(seen, wanted=wanted, others=self.services.neighbours.of(self.manifest))
            case planned.RecordIntent(entries):
                status = begun(self.manifest, sorted(entries))
                await self._recorded(self.write(status))
                self.manifest = msgspec.structs.replace(self.manifest, status=status)
                self.state.inventory = entries
                return replace(seen, manifest=self.manifest, inventory=entries)
            case _:
                raise TypeError(step)

    async def _objects(self) -> SkrObjects:
        """Return what applies the objects. Another client may lead to another cluster: all is applied anew."""
        state, module = self.state, module_of_manifest(self.manifest)
        owner = Owner(self.key, module, self.services.options.namespace)
        objects = SkrObjects.of(state.objects, await self.skr.client(), owner)
        if objects is not state.objects:
            state.objects, state.settled, state.has_namespace = objects, "", False
            state.checked_at = float("-inf")
        return objects

    async def _connect(self, seen: Snapshot, rendering: Rendering) -> Snapshot:
        state, interval = self.state, self.services.options.interval_seconds
        is_new = state.objects is None
        await self._objects()
        if is_new and _was_ready(self.manifest):
            # A new process reads every object some time within the interval, not those of the whole fleet at once.
            state.settled, state.inventory = rendering.fingerprint, inventory_of(self.manifest)
            state.checked_at = seen.seconds - interval * random.random()  # noqa: S311 - no secret
        check_all = state.check_all or seen.seconds - state.checked_at >= interval
        memory = Memory(state.settled, check_all, state.checked_at, state.has_namespace)
        is_settled = state.settled == rendering.fingerprint
        return replace(seen, memory=memory, inventory=state.inventory if is_settled else seen.inventory)

    async def _add_finalizer(self) -> None:
        metadata = self.manifest.metadata
        finalizers = (*metadata.finalizers, names.MANIFEST_FINALIZER)
        answer = await set_finalizers(self.services.kcp, MANIFESTS, metadata, finalizers)
        self.services.manifests.wrote(answer)
        metadata = msgspec.structs.replace(metadata, finalizers=finalizers)
        self.manifest = msgspec.structs.replace(self.manifest, metadata=metadata)

    async def _recorded(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except KubeError as error:
            raise RecordingFailed(f"the intent could not be recorded in KCP: {error}") from error

    async def _change(self, seen: Snapshot, step: Step) -> Snapshot:
        match step:
            case planned.HandOver():
                return await self._hand_over(seen, step)
            case planned.CreateNamespace(name):
                await create_namespace(await self.skr.client(), name)
                self.state.has_namespace = True
                return replace(seen, namespace_created=True)
            case planned.ApplyObjects():
                return await self._apply(seen, step)
            case planned.PruneObjects():
                return await self._prune(seen, step)
            case _:
                raise TypeError(step)

    async def _hand_over(self, seen: Snapshot, step: planned.HandOver) -> Snapshot:
        neighbours = self.services.neighbours
        async with neighbours.turn(self.manifest):
            given = heirs(step.objects, neighbours.of(self.manifest))
            await hand_over(await self.skr.client(), self.key, given)
            self.state.given_up |= identities(given)
        inventory = without(seen.inventory, given)
        self.state.inventory = inventory
        neighbours.notify(self.manifest, given)
        return replace(seen, inventory=inventory, others=neighbours.of(self.manifest))

    async def _apply(self, seen: Snapshot, step: planned.ApplyObjects) -> Snapshot:
        state, others = self.state, self.services.neighbours.of(self.manifest)
        objects = await self._objects()
        state.inventory, state.settled = step.inventory, ""
        if step.recheck:
            state.check_all = False  # what is enqueued from here on may have seen something newer
        result = await apply_objects(
            objects.applier,
            step.rendering.objects,
            step.inventory,
            new=step.new,
            recheck=step.recheck,
            leave=lambda entry, live: is_managed_by_another(entry, live, others),
        )
        if step.recheck:
            state.checked_at = seen.seconds
        if result.changed:
            self._log_applied(result)
        memory = replace(seen.memory or Memory(), checked_at=state.checked_at)
        return replace(self._with_result(seen, step.rendering, result), memory=memory, others=others)

    async def _prune(self, seen: Snapshot, step: planned.PruneObjects) -> Snapshot:
        applier = (await self._objects()).applier
        result = await prune(applier, step.rendering.objects, step.applied, step.entries)
        self.services.neighbours.notify(self.manifest, without(step.entries, result.inventory))
        return replace(self._with_result(seen, step.rendering, result), pruned=True)

    def _with_result(self, seen: Snapshot, rendering: Rendering, result: ApplyResult) -> Snapshot:
        self.state.inventory = result.inventory
        self.state.settled = rendering.fingerprint if planned.is_settled(result) else ""
        return replace(seen, applied=result, inventory=result.inventory)

    async def _read(self, seen: Snapshot, step: Step) -> Snapshot:
        skr = await self.skr.client()
        match step:
            case planned.ListObjectsOfCRDs(crds):
                found = {crd: await objects_of_crd(skr, crd.name) for crd in crds}
                return replace(seen, crd_objects={**seen.crd_objects, **found})
            case planned.ReadManagers(managers, optional):
                named = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in managers]
                others = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in optional]
                return replace(seen, managers=(*named, *(each for each in others if each.readiness is not None)))
            case planned.ReadModuleCR(wanted, was_created):
                return replace(seen, module_cr=await _module_cr(skr, wanted, was_created=was_created))
            case _:
                raise TypeError(step)

    async def _find_module_crs(self, seen: Snapshot, step: planned.FindModuleCRs) -> Snapshot:
        try:
            skr = await self.skr.client()
        except AccessSecretMissing:
            return replace(seen, cluster_gone=True)
        kinds = await module_kinds(skr, step.inventory, step.wanted)
        found = await default_crs(skr, self.manifest, step.wanted, kinds, step.inventory)
        others = self.services.neighbours.of(self.manifest)
        return replace(seen, removal=Removal(kinds, found), others=others)

    async def _remove(self, seen: Snapshot, step: Step) -> Snapshot:
        if isinstance(step, planned.FindModuleCRs):
            return await self._find_module_crs(seen, step)
        skr, removal = await self.skr.client(), seen.removal or Removal(())
        match step:
            case planned.DeleteDefaultCRs(crs):
                deleted = {cr: await _delete(skr, cr, live) for cr, live in removal.default_crs if cr in crs}
                left = ((cr, deleted.get(cr, live)) for cr, live in removal.default_crs)
                return _removing(seen, default_crs=tuple((cr, live) for cr, live in left if live is not None))
            case planned.CheckManagersMissing(managers):
                views = [await read_manager(skr, each) for each in managers]
                missing = bool(views) and all(each.readiness is None for each in views)
                return _removing(seen, manager_missing=missing)
            case planned.StripFinalizers(crs):
                for cr, live in crs:
                    await strip_finalizers(skr, cr.resource, live, self.manifest)
                return _removing(seen, default_crs=tuple(each for each in removal.default_crs if each not in crs))
            case planned.ListUsersObjects(kinds, own):
                return _removing(seen, users_objects=await objects_of_kinds(skr, kinds, own))
            case planned.DeleteObjects(entries):
                return await self._delete_objects(seen, removal, entries)
            case _:
                raise TypeError(step)

    async def _delete_objects(self, seen: Snapshot, removal: Removal, entries: Collection[InventoryEntry]) -> Snapshot:
        result = await (await self._objects()).applier.delete(entries)
        self.services.neighbours.notify(self.manifest, without(entries, result.inventory))
        result.raise_first_failure()
        inventory = tuple(sorted({*without(seen.inventory, entries), *result.inventory}))
        self.state.inventory = inventory
        removal = planned.after_deleting(removal, result.inventory)
        return replace(seen, inventory=inventory, removal=removal)

    def _log_applied(self, result: ApplyResult) -> None:
        log.info(
            "module applied",
            kyma=kyma_of_manifest(self.manifest),
            module=module_of_manifest(self.manifest),
            version=self.manifest.spec.version,
            objects=len(result.inventory),
            failed=len(result.failed),
        )


def _was_ready(manifest: Manifest) -> bool:
    status = manifest.status
    return status.state is State.READY and status.observed_generation == manifest.metadata.generation


def _removing(seen: Snapshot, **outcome: Any) -> Snapshot:
    return replace(seen, removal=replace(seen.removal or Removal(()), **outcome))


async def _delete(skr: Client, cr: ModuleCr, live: JsonObject) -> JsonObject | None:
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
