"""Carries out the steps of a Manifest, and writes its end. Every step may be repeated."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

import structlog

from kube_runtime import (
    AlreadyExists,
    ApplyResult,
    Client,
    Clock,
    ClusterUnreachable,
    Informer,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectKey,
    Result,
    Step,
)
from kyma_oci import SourceError
from lifecycle_manager.contract.resources import FIELD_MANAGER, Secret
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import steps
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.neighbours import Neighbours
from lifecycle_manager.module_installation.plan import after_deleting, is_settled
from lifecycle_manager.module_installation.reading import (
    KindObject,
    default_crs,
    module_kinds,
    objects_of_crd,
    objects_of_kinds,
    read_manager,
)
from lifecycle_manager.module_installation.rendering import Renderings
from lifecycle_manager.module_installation.settings import DEPLOYER, Options
from lifecycle_manager.module_installation.snapshot import (
    ManifestRequest,
    ManifestSnapshot,
    ManifestState,
    ModuleMemory,
    Removal,
    inventory_of,
)
from lifecycle_manager.module_installation.status import ORPHANED, CrView, begun, unreachable
from lifecycle_manager.module_installation.steps import ManifestDone, ManifestEnd, ManifestStep
from lifecycle_manager.module_sources import ObjectStore, Source
from lifecycle_manager.object_set import OwnerWrites, SkrObjects
from lifecycle_manager.object_set.apply import hand_over, release
from lifecycle_manager.object_set.inventory import identities, without
from lifecycle_manager.object_set.ownership import Holder, SetOwner, is_managed_by_another, next_owners
from lifecycle_manager.object_set.repairs import as_seen, seen_in
from lifecycle_manager.object_set.reporting import READY, set_owner
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    NothingApplied,
    PruneObjects,
    RemoveFinalizer,
)
from lifecycle_manager.skr import Connections, ObservedObject, failure_of
from lifecycle_manager.skr.finalizers import strip_finalizers
from lifecycle_manager_api import Manifest, ManifestStatus, State, find

log = structlog.get_logger("manifest")


REQUEUE_REASONS: Mapping[type[Step], str] = {
    steps.RecordInventory: "manifest_add_finalizer",
    PruneObjects: "manifest_prune_diff_not_finished",
    ApplyObjects: "manifest_sync_resources_enqueue_required",
    steps.DeleteDefaultCRs: "manifest_pre_delete_enqueue_required",
    steps.ReleaseObjects: "manifest_labels_removal",
}
"""Upstream's names in the metric of requeues, by what a reconcile does."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ManifestActions:
    """Keeps the modules of Manifests in their SKRs as they are wanted.

    `data` are the Secrets of KCP for the module DEPLOYER.
    """

    writes: OwnerWrites[Manifest]
    connections: Connections
    clock: Clock
    neighbours: Neighbours
    store: ObjectStore
    logins: Logins
    renderings: Renderings
    data: Informer[Secret] | None
    options: Options

    async def apply(self, request: ManifestRequest, seen: ManifestSnapshot, step: ManifestStep) -> ManifestSnapshot:
        """Carry a step out. Raises KubeError, SkrAccessError or RecordingFailed."""
        if (reason := REQUEUE_REASONS.get(type(step))) is not None:
            seen = replace(seen, reasons=(*seen.reasons, reason))
        match step:
            case steps.Render(source):
                return await self._render(seen, source)
            case steps.Connect():
                return await self._connect(request, seen)
            case steps.ResolveObjects():
                return await self._resolve(request, seen)
            case steps.RecordInventory(entries):
                manifest = await self.writes.intend(seen.manifest, begun(seen.manifest, sorted(entries)))
                request.state.inventory = entries
                return replace(seen, manifest=manifest, inventory=entries)
            case steps.CreateNamespace(name):
                await (await self._objects(request, seen)).create_namespaces([name])
                return replace(seen, namespace_created=True)
            case ApplyObjects():
                return await self._apply(request, seen, step)
            case PruneObjects():
                return await self._prune(request, seen, step)
            case DeleteObjects(inventory):
                return await self._delete_objects(request, seen, inventory)
            case steps.HandOverObjects(objects):
                return await self._hand_over(request, seen, objects)
            case steps.ReleaseObjects(objects):
                return await self._release(request, seen, objects)
            case (
                steps.ListObjectsOfCRDs()
                | steps.ReadManagers()
                | steps.ReadModuleCR()
                | steps.FindModuleCRs()
                | steps.DeleteDefaultCRs()
                | steps.CheckManagersMissing()
                | steps.StripFinalizers()
                | steps.ListUsersObjects()
            ):
                return await self._on_module_crs(await self._skr(request, seen), seen, step)
            case _:
                assert_never(step)

    async def _on_module_crs(self, skr: Client, seen: ManifestSnapshot, step: steps.ModuleCrStep) -> ManifestSnapshot:
        """Carry out a step on what is not in the inventory: Module CRs and what runs the module."""
        match step:
            case steps.ListObjectsOfCRDs(crds):
                found = {crd: await objects_of_crd(skr, crd.name) for crd in crds}
                return replace(seen, crd_objects={**seen.crd_objects, **found})
            case steps.ReadManagers(managers, optional):
                named = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in managers]
                others = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in optional]
                return replace(seen, managers=(*named, *(each for each in others if each.readiness is not None)))
            case steps.ReadModuleCR(wanted, was_created):
                return replace(seen, module_cr=await _module_cr(skr, wanted, was_created=was_created))
            case steps.FindModuleCRs(inventory, default):
                kinds = await module_kinds(skr, inventory, default)
                crs = await default_crs(skr, seen.manifest, default, kinds, inventory)
                return replace(seen, removal=Removal(kinds, crs), others=self.neighbours.of(seen.manifest))
            case steps.DeleteDefaultCRs(crs):
                before = _removal(seen).default_crs
                deleted = {cr: await _delete(skr, cr, live) for cr, live in before if cr in crs}
                left = ((cr, deleted.get(cr, live)) for cr, live in before)
                return _removing(seen, default_crs=tuple((cr, live) for cr, live in left if live is not None))
            case steps.CheckManagersMissing(managers):
                views = [await read_manager(skr, each) for each in managers]
                return _removing(seen, manager_missing=bool(views) and all(each.readiness is None for each in views))
            case steps.StripFinalizers(crs):
                for cr, live in crs:
                    await strip_finalizers(skr, cr.resource, live, seen.manifest)
                return _removing(seen, default_crs=tuple(x for x in _removal(seen).default_crs if x not in crs))
            case steps.ListUsersObjects(kinds, own):
                return _removing(seen, users_objects=await objects_of_kinds(skr, kinds, own))
            case _:
                assert_never(step)

    async def finish(self, request: ManifestRequest, seen: ManifestSnapshot, end: ManifestEnd) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        match end:
            case ManifestDone():
                await self.writes.report(seen.manifest, end.status)
                return replace(self._settled(request.state, end), reasons=(*seen.reasons, _finished(end.status)))
            case RemoveFinalizer(of_others=of_others):
                await self.writes.remove_finalizer(seen.manifest, of_others=of_others)
                return Result(reasons=(*seen.reasons, "manifest_reconcile_finished"))
            case steps.LeaveAlone():
                request.state.check_all = True  # nothing was corrected in the meantime
                return Result()
            case NothingApplied():
                return Result()
            case _:
                assert_never(end)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception; the inventory stays. Raises KubeError."""
        manifest = self.writes.informer.get(key)
        if manifest is not None:
            failure, known = failure_of(error), inventory_of(manifest)
            status = unreachable(manifest, known, failure.reason, failure.message, self.clock.now())
            await self.writes.report(manifest, status)

    def _settled(self, state: ManifestState, end: ManifestDone) -> Result:
        state.check_all = state.check_all or end.check_all
        if end.error is not None:
            return Result()
        if end.applied is not None:
            state.repairs.remember(end.applied.outcomes)
        wait = state.settle(_shown(end), now=self.clock.monotonic()) if end.settles else None
        return Result(requeue_after=wait or end.requeue_after)

    async def _skr(self, request: ManifestRequest, seen: ManifestSnapshot) -> Client:
        kyma = kyma_of_manifest(seen.manifest)
        return await request.shared("skr", lambda: self.connections.to(kyma))

    async def _render(self, seen: ManifestSnapshot, source: Source) -> ManifestSnapshot:
        try:
            objects = await self.store.objects(
                source, partial(self.logins.login, seen.manifest), self.logins.credentials_scope(seen.manifest)
            )
            spec, module = seen.manifest.spec, module_of_manifest(seen.manifest)
            data = self.data.list() if self.data is not None and module == DEPLOYER else None
            rendering = self.renderings.of(objects, spec.localized_images, manager=spec.manager, data=data)
            return replace(seen, rendering=rendering)
        except SourceError as error:
            return replace(seen, source_error=error)

    async def _objects(self, request: ManifestRequest, seen: ManifestSnapshot) -> SkrObjects:
        """Return what applies the objects. Another client may lead to another cluster: all is applied anew."""
        skr, state, namespace = await self._skr(request, seen), request.state, self.options.namespace
        objects = SkrObjects.of(state.objects, skr, owner=_owner(seen.manifest), namespace=namespace)
        if objects is not state.objects:
            state.objects, state.settled, state.checked_at = objects, "", float("-inf")
        return objects

    async def _connect(self, request: ManifestRequest, seen: ManifestSnapshot) -> ManifestSnapshot:
        state, interval = request.state, self.options.interval_seconds
        is_new, wanted = state.objects is None, _fingerprint(seen)
        objects = await self._objects(request, seen)
        if is_new and _was_ready(seen.manifest):
            # A new process reads every object some time within the interval, not those of the whole fleet at once.
            state.settled, state.inventory = wanted, inventory_of(seen.manifest)
            state.checked_at = seen.seconds - interval * random.random()  # noqa: S311 - no secret
        check_all = state.check_all or seen.seconds - state.checked_at >= interval
        memory = ModuleMemory(state.settled, check_all, state.checked_at, bool(objects.namespaces))
        return replace(seen, memory=memory, inventory=state.inventory if state.settled == wanted else seen.inventory)

    async def _resolve(self, request: ManifestRequest, seen: ManifestSnapshot) -> ManifestSnapshot:
        of_known_kinds, own_kinds = (
            (seen.rendering.of_known_kinds, seen.rendering.own_kinds) if seen.rendering else ((), ())
        )
        known = await (await self._objects(request, seen)).applier.intended(of_known_kinds, ())
        wanted = frozenset({*known, *own_kinds})
        request.state.released -= identities(wanted)
        return replace(seen, wanted=wanted, others=self.neighbours.of(seen.manifest))

    async def _hand_over(
        self, request: ManifestRequest, seen: ManifestSnapshot, objects: Mapping[InventoryEntry, Holder]
    ) -> ManifestSnapshot:
        neighbours = self.neighbours
        async with neighbours.turn(seen.manifest):
            given = next_owners(objects, neighbours.of(seen.manifest))
            await hand_over(await self._skr(request, seen), _owner(seen.manifest), given)
            request.state.released |= identities(given)
        request.state.inventory = inventory = without(seen.inventory, given)
        neighbours.notify(seen.manifest, given)
        return replace(seen, inventory=inventory, others=neighbours.of(seen.manifest))

    async def _apply(self, request: ManifestRequest, seen: ManifestSnapshot, step: ApplyObjects) -> ManifestSnapshot:
        state, others = request.state, self.neighbours.of(seen.manifest)
        objects = await self._objects(request, seen)
        state.inventory, state.settled = step.inventory, ""
        checks_all = step.recheck is True
        if checks_all:
            state.check_all = False  # what is enqueued from here on may have seen something newer
        result = await objects.apply(step, lambda entry, live: is_managed_by_another(entry, live, others))
        if checks_all:
            state.checked_at = seen.seconds
        if result.changed:
            self._log_applied(seen.manifest, result)
        memory = replace(seen.memory or ModuleMemory(), checked_at=state.checked_at)
        return replace(_with_result(request.state, seen, result), memory=memory, others=others)

    async def _prune(self, request: ManifestRequest, seen: ManifestSnapshot, step: PruneObjects) -> ManifestSnapshot:
        result = await (await self._objects(request, seen)).prune(step)
        self.neighbours.notify(seen.manifest, without(step.entries, result.inventory))
        return replace(_with_result(request.state, seen, result), pruned=True)

    async def _release(
        self, request: ManifestRequest, seen: ManifestSnapshot, objects: tuple[InventoryEntry, ...]
    ) -> ManifestSnapshot:
        others = [each for each in self.neighbours.of(seen.manifest) if each.manages]
        shared = next_owners(objects, others)
        await release(await self._skr(request, seen), _owner(seen.manifest), without(objects, shared))
        self.neighbours.notify(seen.manifest, tuple(shared))
        request.state.objects = None  # managed again, each object is read
        return replace(seen, released=True)

    async def _delete_objects(
        self, request: ManifestRequest, seen: ManifestSnapshot, inventory: tuple[InventoryEntry, ...]
    ) -> ManifestSnapshot:
        result = await (await self._objects(request, seen)).applier.delete(inventory)
        request.state.settled = ""
        self.neighbours.notify(seen.manifest, without(inventory, result.inventory))
        result.raise_first_failure()
        request.state.inventory = tuple(sorted({*without(seen.inventory, inventory), *result.inventory}))
        removal = after_deleting(_removal(seen), result.inventory)
        return replace(seen, inventory=request.state.inventory, removal=removal)

    def _log_applied(self, manifest: Manifest, result: ApplyResult) -> None:
        log.info(
            "module applied",
            kyma=kyma_of_manifest(manifest),
            module=module_of_manifest(manifest),
            version=manifest.spec.version,
            objects=len(result.inventory),
            failed=len(result.failed),
        )


def _with_result(state: ManifestState, seen: ManifestSnapshot, result: ApplyResult) -> ManifestSnapshot:
    state.inventory = result.inventory
    state.settled = _fingerprint(seen) if is_settled(result) else ""
    return replace(seen, applied=result, inventory=result.inventory)


def _owner(manifest: Manifest) -> SetOwner:
    return set_owner(manifest, module_of_manifest(manifest))


def _was_ready(manifest: Manifest) -> bool:
    """Tell whether a module is in the cluster as its Manifest wants it. Its deletion is a generation of its own."""
    status, metadata = manifest.status, manifest.metadata
    return status.state is State.READY and status.observed_generation == metadata.generation - metadata.being_deleted


def _fingerprint(seen: ManifestSnapshot) -> str:
    return seen.rendering.fingerprint if seen.rendering is not None else ""


def _removal(seen: ManifestSnapshot) -> Removal:
    return seen.removal or Removal(())


def _removing(seen: ManifestSnapshot, **outcome: Any) -> ManifestSnapshot:
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


def _finished(status: ManifestStatus) -> str:
    """Return upstream's name in the metric of requeues for the end of a reconcile."""
    ready = find(status.conditions, READY)
    return "manifest_orphaned" if ready is not None and ready.reason == ORPHANED else "manifest_reconcile_finished"


def _shown(end: ManifestDone) -> dict[ObjectReference, ObservedObject]:
    found = seen_in(end.applied.outcomes) if end.applied is not None else {}
    view = end.module_cr
    if view is not None and view.live:
        wanted = view.wanted
        found[ObjectReference(wanted.group, wanted.kind, wanted.namespace, wanted.name)] = as_seen(view.live)
    return found
