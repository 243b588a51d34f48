"""What a reconcile of a Manifest does in its SKR, beside what every set does. Each of it may be repeated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

import structlog

from kube_runtime import (
    AlreadyExists,
    Client,
    ClusterUnreachable,
    Forbidden,
    Informer,
    Invalid,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubeError,
    NotFound,
    Result,
    ServerUnavailable,
    conversion_failure,
    once_each,
)
from kube_runtime.tracing import part
from kyma_oci import SourceError
from lifecycle_manager.contract.offsets import until_check
from lifecycle_manager.contract.resources import FIELD_MANAGER, Secret
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import rules, steps
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.managers import managers_of, optional_managers_of
from lifecycle_manager.module_installation.module_cr import CrView, DefaultCr
from lifecycle_manager.module_installation.neighbours import Neighbours
from lifecycle_manager.module_installation.plan import after_deleting
from lifecycle_manager.module_installation.reading import (
    KindObject,
    crd_of,
    default_crs,
    foreign_kind,
    module_kinds,
    objects_of_kinds,
    own_kind,
    read_manager,
)
from lifecycle_manager.module_installation.rendering import ObjectsForbidden, RenderedModule, Renderings
from lifecycle_manager.module_installation.snapshot import RESOURCES, ManifestSnapshot, Removal, was_ready
from lifecycle_manager.module_installation.status import ORPHANED, begun, terminating, was_created
from lifecycle_manager.module_installation.steps import ManifestDone, ManifestEnd, ManifestStep
from lifecycle_manager.module_sources.references import Source
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.object_set.apply import hand_over, release
from lifecycle_manager.object_set.engine import ObjectSet, SetEngine
from lifecycle_manager.object_set.inventory import identities, inventory_of, without
from lifecycle_manager.object_set.ownership import Holder, is_of_the_lifecycle_manager, next_owners
from lifecycle_manager.object_set.reporting import READY, set_owner
from lifecycle_manager.object_set.rules import Objection, objection_to
from lifecycle_manager.options.modules import DEPLOYER, Options
from lifecycle_manager.skr.finalizers import strip_finalizers
from lifecycle_manager_api import Manifest, find

log = structlog.get_logger("manifest")

REQUEUE_REASONS: Mapping[str, str] = {
    "RecordIntent": "manifest_add_finalizer",
    "PruneObjects": "manifest_prune_diff_not_finished",
    "ApplyObjects": "manifest_sync_resources_enqueue_required",
    "DeleteDefaultCRs": "manifest_pre_delete_enqueue_required",
    "ReleaseObjects": "manifest_labels_removal",
}
"""Upstream's names in the metric of requeues, by the parts of a reconcile."""

ModuleSet = ObjectSet[Manifest]


@dataclass(frozen=True, eq=False, kw_only=True)
class ManifestEngine(SetEngine[Manifest]):
    """Keeps the modules of Manifests in their SKRs as they are wanted.

    `data` are the Secrets of KCP for the module DEPLOYER.
    """

    neighbours: Neighbours
    store: ObjectStore
    logins: Logins
    renderings: Renderings
    data: Informer[Secret] | None
    options: Options

    def others_of(self, owner: Manifest) -> tuple[Holder, ...]:
        return self.neighbours.of(owner)

    def gave_up(self, owner: Manifest, entries: tuple[InventoryEntry, ...]) -> None:
        self.neighbours.notify(owner, entries)

    async def render(self, manifest: Manifest, source: Source) -> RenderedModule:
        """Return the objects of a module for its SKR. Raises SourceError."""
        credentials = partial(self.logins.login, manifest)
        with part("Render"):
            objects = await self.store.objects(source, credentials, self.logins.credentials_scope(manifest))
        data = self.data.list() if self.data is not None and module_of_manifest(manifest) == DEPLOYER else None
        return self.renderings.of(objects, manifest.spec.localized_images, manager=manifest.spec.manager, data=data)

    async def connect(self, module: ModuleSet, seen: ManifestSnapshot, rendering: RenderedModule) -> bool:
        """Connect to the SKR; tell whether every object is to be read there. Raises SkrAccessError."""
        state = module.request.state
        is_new, next_check = state.objects is None, state.next_check
        objects = await module.objects()
        if is_new and was_ready(seen.resource):
            state.settled, state.inventory = rendering.fingerprint, inventory_of(seen.resource)
            state.next_check = next_check
        check_all: bool = state.check_all or seen.seconds >= state.next_check
        if check_all:
            objects.namespaces = ()  # somebody may have deleted one
        if state.settled == rendering.fingerprint:
            module.inventory = state.inventory
        return check_all

    async def bring(
        self, module: ModuleSet, seen: ManifestSnapshot, rendering: RenderedModule, *, check_all: bool
    ) -> ManifestSnapshot | Objection:
        """Bring the objects of a rendering to the SKR; return what was found out, or why nothing is applied.

        Raises KubeError, SkrAccessError or RecordingFailed.
        """
        state, resource = module.request.state, seen.resource
        applied_before = find(resource.status.conditions, RESOURCES)
        await module.resolve(rendering.of_known_kinds, rendering.own_kinds, applied=applied_before)
        state.released -= identities(module.wanted)
        objection = objection_to(seen, rendering.objects, module.wanted, forbidden=ObjectsForbidden.reason)
        if objection is not None:
            return objection
        await module.record_intent(begun)
        objects, _ = once_each(rendering.objects, module.namespace_of)
        while shared := next_owners(module.leftover, module.others):
            await self.hand_over(module, shared)
        recheck = check_all or seen.announced
        state.inventory, state.settled = module.intended, ""
        if check_all:
            state.check_all = False  # what is enqueued from here on may have seen something newer
        namespaces = rules.namespaces(seen, module.intended)
        applied = await module.apply(objects, module.intended, recheck=recheck, namespaces=namespaces)
        if check_all:
            wait = until_check(kyma_of_manifest(resource), self.options.interval_seconds, now=seen.now)
            state.next_check = seen.seconds + wait
        if not any(each.is_changing for each in module.others):  # it may have what this one gives up
            applied = await module.prune(applied)
        state.settled = "" if applied.failed or terminating(applied) else rendering.fingerprint
        if applied.changed:
            counts = {"objects": len(applied.inventory), "failed": len(applied.failed)}
            of_module = {"module": module_of_manifest(resource), "version": resource.spec.version}
            log.info("module applied", kyma=kyma_of_manifest(resource), **of_module, **counts)
        return current(module, seen, applied=applied, next_check=state.next_check)

    async def judge(self, module: ModuleSet, seen: ManifestSnapshot) -> ManifestSnapshot:
        """Return with what runs the module, and its default Module CR, which is created where it never was.

        Raises KubeError.
        """
        skr, named = await module.skr(), seen.resource.spec.manager
        if rules.reads_managers(seen):
            managers = managers_of(named, seen.inventory, seen.options.namespace)
            further = optional_managers_of(named, seen.inventory)
            with module.part("ReadManagers"):
                views = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in managers]
                optional = [await read_manager(skr, each, seen.lives.get(each.identity)) for each in further]
            seen = replace(seen, managers=(*views, *(each for each in optional if each.readiness is not None)))
        if (wanted := rules.cr_to_read(seen)) is not None:
            with module.part("ReadModuleCR"):
                found = await _module_cr(skr, seen, self.neighbours.of(seen.resource), wanted)
            seen = replace(seen, module_cr=found)
        return seen

    async def hand_over(self, module: ModuleSet, shared: Mapping[InventoryEntry, Holder]) -> None:
        """Hand objects over to other modules that have them too. Raises KubeError."""
        neighbours, resource = self.neighbours, module.resource
        with module.part("HandOverObjects"):
            async with neighbours.turn(resource):
                given = next_owners(shared, neighbours.of(resource))
                owners = {entry: each.owner for entry, each in given.items()}
                await hand_over(await module.skr(), set_owner(resource), owners)
                module.request.state.released |= identities(given)
            module.remember(without(module.inventory, given))
            neighbours.notify(resource, tuple(given))
            module.others = neighbours.of(resource)

    async def release(self, module: ModuleSet, objects: tuple[InventoryEntry, ...]) -> None:
        """Leave the module's objects to its users: remove the label by which tools see who manages them.

        Raises KubeError.
        """
        resource = module.resource
        with module.part("ReleaseObjects"):
            shared = next_owners(objects, [each for each in self.neighbours.of(resource) if each.manages])
            await release(await module.skr(), set_owner(resource), without(objects, shared))
            self.neighbours.notify(resource, tuple(shared))
            module.request.state.objects = None  # managed again, each object is read

    async def take(self, module: ModuleSet, seen: ManifestSnapshot, step: ManifestStep) -> ManifestSnapshot:
        """Carry a step of a removal out. Raises KubeError, SkrAccessError or RecordingFailed."""
        match step:
            case steps.Upgrade(source):
                return _removing(await self._upgrade(module, seen, source), upgraded=True)
            case steps.HandOverObjects(objects):
                await self.hand_over(module, objects)
                return current(module, seen)
            case steps.ReleaseFound(entries):
                await module.release_found(entries)
                return current(module, seen)
            case steps.DeleteObjects(inventory):
                module.request.state.settled = ""
                removed = await module.delete(inventory)
                removed.raise_first_failure()
                after = after_deleting(_removal(seen), module.inventory)
                return current(module, seen, removed=removed, removal=after)
            case _:
                with module.part(type(step).__name__):
                    try:
                        return await self._on_module_crs(module, seen, step)
                    except (Forbidden, Invalid, ServerUnavailable) as refusal:
                        if isinstance(step, steps.DeleteDefaultCRs | steps.StripFinalizers):
                            return _removing(seen, refused=refusal)
                        if not conversion_failure(refusal):
                            raise
                        return replace(seen, unread=refusal)

    async def _on_module_crs(
        self, module: ModuleSet, seen: ManifestSnapshot, step: steps.ModuleCrStep
    ) -> ManifestSnapshot:
        """Carry out a step on what is not in the inventory: Module CRs and what runs the module."""
        skr = await module.skr()
        match step:
            case steps.FindModuleCRs(inventory, default):
                module.others = others = self.neighbours.of(seen.resource)
                own = await own_kind(skr, seen, others, default) if default is not None else None
                kinds = await module_kinds(skr, inventory, own)
                crs = await default_crs(skr, seen.resource, default if own is not None else None, kinds, inventory)
                # One that no module has created is the users' where its CRD was there before and stays.
                made = {cr for cr, live in crs if is_of_the_lifecycle_manager(live)}
                crs = tuple(it for it in crs if it[0] in made or crd_of(it[0].resource).identity not in seen.found)
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
            case steps.ListUsersObjects(kinds, own, sync_resources):
                return _removing(seen, users_objects=await objects_of_kinds(skr, kinds, own, sync_resources))
            case _:
                assert_never(step)

    async def _upgrade(self, module: ModuleSet, seen: ManifestSnapshot, source: Source) -> ManifestSnapshot:
        """Bring the version that the Manifest names, if it may be applied and is not."""
        try:
            rendering = await self.render(seen.resource, source)
        except SourceError as error:
            return replace(seen, source_error=error)
        seen = replace(seen, rendering=rendering)
        await self.connect(module, seen, rendering)
        is_applied = module.request.state.settled == rendering.fingerprint
        if is_applied or objection_to(seen, rendering.objects, None) is not None:
            return current(module, seen)
        found = await self.bring(module, seen, rendering, check_all=False)
        return current(module, seen) if isinstance(found, Objection) else found

    async def finish(self, module: ModuleSet, end: ManifestEnd) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        state = module.request.state
        match end:
            case steps.LeaveAlone():
                state.check_all = True  # nothing was corrected in the meantime
                return Result()
            case steps.WaitForCheck():
                return Result(end.requeue_after)
            case steps.RemoveFinalizer(of_others=of_others):
                await self.writes.remove_finalizer(module.resource, of_others=of_others)
                result = Result()
            case _:
                result = await module.report(end)
                state.check_all = state.check_all or end.check_all
        reasons = (REQUEUE_REASONS[each] for each in module.parts if each in REQUEUE_REASONS)
        return replace(result, reasons=(*reasons, _finished(end)))


def current(module: ModuleSet, seen: ManifestSnapshot, **found: Any) -> ManifestSnapshot:
    """Return what is known by now."""
    return replace(
        seen,
        resource=module.resource,
        inventory=module.inventory,
        found=module.found,
        others=module.others,
        **found,
    )


def _removal(seen: ManifestSnapshot) -> Removal:
    return seen.removal or Removal(())


def _removing(seen: ManifestSnapshot, **outcome: Any) -> ManifestSnapshot:
    return replace(seen, removal=replace(_removal(seen), **outcome))


async def _delete(skr: Client, cr: KindObject, live: JsonObject) -> JsonObject | None:
    """Delete a default Module CR; return it while it still exists."""
    try:
        uid = live["metadata"]["uid"]
        return await skr.delete(cr.resource, cr.name, cr.namespace or None, uid=uid)
    except NotFound:
        return None


async def _module_cr(skr: Client, seen: ManifestSnapshot, others: Iterable[Holder], wanted: DefaultCr) -> CrView:
    """Read the default Module CR, and create it if that was never done and its kind is the module's."""
    is_created = was_created(seen.resource, wanted) and not seen.has_new_kind
    try:
        resource = await skr.mapper.served(wanted.api_version, wanted.kind)
        if resource is None:
            raise KindUnknown(wanted.api_version, wanted.kind)
        if not is_created and (why := foreign_kind(seen, others, resource)):
            return CrView(wanted, None, refused=why)
        namespace = wanted.namespace_in(resource)
        try:
            live = await skr.get(resource, wanted.name, namespace or None)
        except NotFound:
            if is_created:
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
        return CrView(wanted, None, refused=str(error), created=is_created)


def _finished(end: ManifestEnd) -> str:
    """Return upstream's name in the metric of requeues for the end of a reconcile."""
    ready = find(end.status.conditions, READY) if isinstance(end, ManifestDone) else None
    return "manifest_orphaned" if ready is not None and ready.reason == ORPHANED else "manifest_reconcile_finished"
