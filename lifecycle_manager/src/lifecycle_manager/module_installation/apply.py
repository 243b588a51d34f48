"""Carries out the steps of a Manifest, and writes its end. Every step may be repeated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

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
    Result,
    Step,
)
from kyma_oci import SourceError
from lifecycle_manager.contract.offsets import until_check
from lifecycle_manager.contract.resources import FIELD_MANAGER, Secret
from lifecycle_manager.module_catalog import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import steps
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.neighbours import Neighbours
from lifecycle_manager.module_installation.plan import after_deleting, is_settled
from lifecycle_manager.module_installation.reading import (
    KindObject,
    crd_of,
    default_crs,
    foreign_kind,
    module_kinds,
    objects_of_crd,
    objects_of_kinds,
    own_kind,
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
    was_ready,
)
from lifecycle_manager.module_installation.status import ORPHANED, CrView
from lifecycle_manager.module_installation.steps import ManifestDone, ManifestEnd, ManifestStep
from lifecycle_manager.module_sources import ObjectStore, Source
from lifecycle_manager.object_set.apply import hand_over, release
from lifecycle_manager.object_set.inventory import identities, inventory_of, without
from lifecycle_manager.object_set.ownership import Holder, is_of_the_lifecycle_manager, next_owners
from lifecycle_manager.object_set.reconciler import SetReconciler
from lifecycle_manager.object_set.reporting import READY, set_owner
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    NothingApplied,
    PruneObjects,
    RecordIntent,
    ReleaseFound,
    RemoveFinalizer,
    ResolveObjects,
)
from lifecycle_manager.skr.finalizers import strip_finalizers
from lifecycle_manager_api import Manifest, find

log = structlog.get_logger("manifest")


REQUEUE_REASONS: Mapping[type[Step], str] = {
    RecordIntent: "manifest_add_finalizer",
    PruneObjects: "manifest_prune_diff_not_finished",
    ApplyObjects: "manifest_sync_resources_enqueue_required",
    steps.DeleteDefaultCRs: "manifest_pre_delete_enqueue_required",
    steps.ReleaseObjects: "manifest_labels_removal",
}
"""Upstream's names in the metric of requeues, by what a reconcile does."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ManifestActions(SetReconciler[Manifest]):
    """Keeps the modules of Manifests in their SKRs as they are wanted.

    `data` are the Secrets of KCP for the module DEPLOYER.
    """

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
        if isinstance(step, steps.ModuleCrStep):
            return await self._on_module_crs(await self.skr(request, seen), seen, step)
        match step:
            case steps.Render(source):
                return await self._render(seen, source)
            case steps.Connect():
                return await self._connect(request, seen)
            case ResolveObjects():
                seen = await self.carry_out(request, seen, step)
                if request.state.released:
                    request.state.released -= identities(seen.wanted or ())
                return replace(seen, others=self.neighbours.of(seen.resource))
            case RecordIntent():
                return await self.carry_out(request, seen, step)
            case ReleaseFound(entries):
                seen = await self.carry_out(request, seen, step)
                self.neighbours.notify(seen.resource, entries)
                return seen
            case ApplyObjects():
                return await self._apply(request, seen, step)
            case PruneObjects(entries=entries):
                seen = _settled(request.state, await self.carry_out(request, seen, step))
                self.neighbours.notify(seen.resource, without(entries, seen.inventory))
                return seen
            case DeleteObjects():
                return await self._delete_objects(request, seen, step)
            case steps.HandOverObjects(objects):
                return await self._hand_over(request, seen, objects)
            case steps.ReleaseObjects(objects):
                return await self._release(request, seen, objects)
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
                further = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in optional]
                return replace(seen, managers=(*named, *(each for each in further if each.readiness is not None)))
            case steps.ReadModuleCR(wanted, was_created):
                others = self.neighbours.of(seen.resource)
                return replace(seen, module_cr=await _module_cr(skr, seen, others, wanted, was_created=was_created))
            case steps.FindModuleCRs(inventory, default):
                others = self.neighbours.of(seen.resource)
                own = await own_kind(skr, seen, others, default) if default is not None else None
                kinds = await module_kinds(skr, inventory, own)
                crs = await default_crs(skr, seen.resource, default if own is not None else None, kinds, inventory)
                crs = tuple((cr, live) for cr, live in crs if not _was_there(seen, cr, live))
                return replace(seen, removal=Removal(kinds, crs), others=others)
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
                    await strip_finalizers(skr, cr.resource, live, seen.resource)
                return _removing(seen, default_crs=tuple(x for x in _removal(seen).default_crs if x not in crs))
            case steps.ListUsersObjects(kinds, own):
                return _removing(seen, users_objects=await objects_of_kinds(skr, kinds, own))
            case _:
                assert_never(step)

    async def finish(self, request: ManifestRequest, seen: ManifestSnapshot, end: ManifestEnd) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        state = request.state
        if isinstance(end, steps.LeaveAlone):
            state.check_all = True  # nothing was corrected in the meantime
            return Result()
        if isinstance(end, steps.WaitForCheck):
            return Result(end.requeue_after)
        result = await self.end(state, seen, end)
        if isinstance(end, NothingApplied):
            return result
        if isinstance(end, ManifestDone):
            state.check_all = state.check_all or end.check_all
        return replace(result, reasons=(*seen.reasons, _finished(end)))

    async def _render(self, seen: ManifestSnapshot, source: Source) -> ManifestSnapshot:
        try:
            objects = await self.store.objects(
                source, partial(self.logins.login, seen.resource), self.logins.credentials_scope(seen.resource)
            )
            spec, module = seen.resource.spec, module_of_manifest(seen.resource)
            data = self.data.list() if self.data is not None and module == DEPLOYER else None
            rendering = self.renderings.of(objects, spec.localized_images, manager=spec.manager, data=data)
            return replace(seen, rendering=rendering)
        except SourceError as error:
            return replace(seen, source_error=error)

    async def _connect(self, request: ManifestRequest, seen: ManifestSnapshot) -> ManifestSnapshot:
        state = request.state
        is_new, wanted, next_check = state.objects is None, _fingerprint(seen), state.next_check
        objects = await self.objects(request, seen)
        if is_new and was_ready(seen.resource):
            state.settled, state.inventory, state.next_check = wanted, inventory_of(seen.resource), next_check
        check_all = state.check_all or seen.seconds >= state.next_check
        if check_all:
            objects.namespaces = ()  # somebody may have deleted one
        memory = ModuleMemory(state.settled, check_all, state.next_check)
        return replace(seen, memory=memory, inventory=state.inventory if state.settled == wanted else seen.inventory)

    async def _hand_over(
        self, request: ManifestRequest, seen: ManifestSnapshot, objects: Mapping[InventoryEntry, Holder]
    ) -> ManifestSnapshot:
        neighbours = self.neighbours
        async with neighbours.turn(seen.resource):
            given = next_owners(objects, neighbours.of(seen.resource))
            await hand_over(await self.skr(request, seen), set_owner(seen.resource), given)
            request.state.released |= identities(given)
        request.state.inventory = inventory = without(seen.inventory, given)
        neighbours.notify(seen.resource, given)
        return replace(seen, inventory=inventory, others=neighbours.of(seen.resource))

    async def _apply(self, request: ManifestRequest, seen: ManifestSnapshot, step: ApplyObjects) -> ManifestSnapshot:
        state, checks_all = request.state, step.recheck is True
        state.inventory, state.settled = step.inventory, ""
        if checks_all:
            state.check_all = False  # what is enqueued from here on may have seen something newer
        seen = replace(seen, others=self.neighbours.of(seen.resource))
        seen = _settled(state, await self.carry_out(request, seen, step))
        if checks_all:
            wait = until_check(kyma_of_manifest(seen.resource), self.options.interval_seconds, now=seen.now)
            state.next_check = seen.seconds + wait
        if (applied := seen.applied) is not None and applied.changed:
            module, version = module_of_manifest(seen.resource), seen.resource.spec.version
            counts = {"objects": len(applied.inventory), "failed": len(applied.failed)}
            log.info("module applied", kyma=kyma_of_manifest(seen.resource), module=module, version=version, **counts)
        return replace(seen, memory=replace(seen.memory or ModuleMemory(), next_check=state.next_check))

    async def _release(
        self, request: ManifestRequest, seen: ManifestSnapshot, objects: tuple[InventoryEntry, ...]
    ) -> ManifestSnapshot:
        others = [each for each in self.neighbours.of(seen.resource) if each.manages]
        shared = next_owners(objects, others)
        await release(await self.skr(request, seen), set_owner(seen.resource), without(objects, shared))
        self.neighbours.notify(seen.resource, tuple(shared))
        request.state.objects = None  # managed again, each object is read
        return replace(seen, released=True)

    async def _delete_objects(
        self, request: ManifestRequest, seen: ManifestSnapshot, step: DeleteObjects
    ) -> ManifestSnapshot:
        request.state.settled = ""
        seen = await self.carry_out(request, seen, step)
        removed = seen.removed or ApplyResult((), ())
        self.neighbours.notify(seen.resource, without(step.inventory, removed.inventory))
        removed.raise_first_failure()
        return replace(seen, removal=after_deleting(_removal(seen), removed.inventory))


def _settled(state: ManifestState, seen: ManifestSnapshot) -> ManifestSnapshot:
    """Remember whether the rendering is completely applied."""
    state.settled = _fingerprint(seen) if seen.applied is not None and is_settled(seen.applied) else ""
    return seen


def _fingerprint(seen: ManifestSnapshot) -> str:
    return seen.rendering.fingerprint if seen.rendering is not None else ""


def _was_there(seen: ManifestSnapshot, cr: KindObject, live: JsonObject) -> bool:
    """Tell whether a default Module CR is the users', as is its CRD, which stays."""
    return crd_of(cr.resource).identity in seen.found and not is_of_the_lifecycle_manager(live)


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


async def _module_cr(
    skr: Client, seen: ManifestSnapshot, others: Iterable[Holder], wanted: DefaultCr, *, was_created: bool
) -> CrView:
    """Read the default Module CR, and create it if that was never done and its kind is the module's."""
    try:
        resource = await skr.mapper.served(wanted.api_version, wanted.kind)
        if resource is None:
            raise KindUnknown(wanted.api_version, wanted.kind)
        if not was_created and (why := foreign_kind(seen, others, resource)):
            return CrView(wanted, None, refused=why)
        namespace = wanted.namespace_in(resource)
        try:
            live = await skr.get(resource, wanted.name, namespace or None)
        except NotFound:
            if was_created:
                return CrView(wanted, None)
            # In the version that it is written in: another one may have other fields.
            resource = await skr.mapper.resource(wanted.api_version, wanted.kind)
            live = await skr.create(
                resource, wanted.document_in(namespace), namespace or None, field_manager=FIELD_MANAGER
            )
        return CrView(wanted, live)
    except ClusterUnreachable:
        raise
    except AlreadyExists:
        return CrView(wanted, {})  # a user was faster
    except KubeError as error:
        return CrView(wanted, None, refused=str(error), created=was_created)


def _finished(end: ManifestDone | RemoveFinalizer) -> str:
    """Return upstream's name in the metric of requeues for the end of a reconcile."""
    ready = find(end.status.conditions, READY) if isinstance(end, ManifestDone) else None
    return "manifest_orphaned" if ready is not None and ready.reason == ORPHANED else "manifest_reconcile_finished"
