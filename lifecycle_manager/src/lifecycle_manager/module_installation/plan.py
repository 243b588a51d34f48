"""The rules of a Manifest: its next step from a snapshot. Pure functions, no I/O. The order of the lines is the rule.

May delete:
- `plan_removal`: a module that is removed. First its default Module CR, while the manager can still clean up; nothing
  else while users have objects of its kinds, which the CRD would take along; then its objects; its CRDs last. As long
  as something blocks it, the module keeps running and gets new versions: its manager may need one to clean up.
- `prunable`: objects that a new version no longer has; none in a round with a failure, no CRD that has objects.
- None of it while the brake holds the deletion (`skr.deletion_brake`).
- Both only from the inventory, and never what another module has: that is handed over to it.
"""

from dataclasses import replace

from kube_runtime import ApplyResult, End, InventoryEntry
from kyma_oci import SourceInvalid
from lifecycle_manager.contract import former
from lifecycle_manager.contract.verdict import POLICY_VIOLATION
from lifecycle_manager.module_catalog import kyma_of_manifest
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_installation import steps
from lifecycle_manager.module_installation.ending import (
    MAX_BUSY_SECONDS,
    installed,
    orphaned_in,
    refused,
    terminating,
    waiting,
)
from lifecycle_manager.module_installation.managers import managers_of, optional_managers_of
from lifecycle_manager.module_installation.module_cr import default_cr
from lifecycle_manager.module_installation.reading import crd_of
from lifecycle_manager.module_installation.rendering import ObjectsForbidden, RenderedModule
from lifecycle_manager.module_installation.snapshot import (
    ManifestSnapshot,
    ModuleMemory,
    Removal,
    has_finalizers,
    has_objects,
    is_being_deleted,
    is_left_alone,
)
from lifecycle_manager.module_installation.status import was_created
from lifecycle_manager.module_installation.steps import ManifestDone, ManifestEnd, ManifestStep
from lifecycle_manager.module_sources import SourceAwaited, source_in
from lifecycle_manager.object_set.inventory import (
    Identity,
    identities,
    is_crd,
    listed,
    without,
)
from lifecycle_manager.object_set.owner_writes import RecordingFailed
from lifecycle_manager.object_set.ownership import next_owners
from lifecycle_manager.object_set.plan import plan_intent, plan_prune
from lifecycle_manager.object_set.policy import Objection, held_back, message_of, objection_in
from lifecycle_manager.object_set.steps import ApplyObjects, DeleteObjects, NothingApplied, RemoveFinalizer, kept
from lifecycle_manager.skr import failure_of
from lifecycle_manager_api import State, boolean, names


def plan(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    manifest = seen.resource
    if seen.error is not None:
        return _failed(seen, seen.error)
    if manifest.metadata.being_deleted:
        return _deletion(seen)
    if is_left_alone(manifest):
        return _release(seen)
    if not kyma_of_manifest(manifest):
        return refused(seen, statuses.KYMA_UNNAMED, f"the label {names.KYMA_NAME} does not name the Kyma")
    if orphaned_in(seen) <= 0:
        message = f"Kyma {kyma_of_manifest(manifest)} does not exist or does not have this Manifest; delete it"
        return refused(seen, statuses.ORPHANED, message, MAX_BUSY_SECONDS)
    if seen.rendering is None:
        return _source(seen)
    return plan_installation(seen, seen.rendering)


def _failed(seen: ManifestSnapshot, error: Exception) -> ManifestEnd:
    """Report a failure, unless that was the record of the intent."""
    if isinstance(error, RecordingFailed):
        return NothingApplied(error=error)
    inventory = sorted({*seen.before, *seen.inventory})
    status = statuses.unreachable(seen.resource, failure_of(error), seen.now, inventory)
    return ManifestDone(status=status, error=error)


def _release(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    """Release the objects of a module that is unmanaged, once."""
    manifest = seen.resource
    is_skipped = boolean(manifest.metadata.labels, names.SKIP_RECONCILIATION)
    if is_skipped or manifest.status.state is State.UNMANAGED or not kyma_of_manifest(manifest):
        return steps.LeaveAlone()
    if seen.released:
        return ManifestDone(status=statuses.unmanaged(manifest, seen.inventory, seen.now))
    default = default_cr(manifest, seen.options.namespace)
    return steps.ReleaseObjects((*seen.inventory, *((default.entry,) if default is not None else ())))


def plan_installation(seen: ManifestSnapshot, rendering: RenderedModule) -> ManifestStep | ManifestEnd:
    """Return the next step of a module whose objects are known."""
    if (objection := _objection(seen, rendering)) is not None:
        return refused(seen, *objection)
    memory = seen.memory
    if memory is None:
        return steps.Connect()
    if seen.applied is not None or memory.check_all or seen.announced or memory.settled != rendering.fingerprint:
        step = _application(seen, rendering, check_all=memory.check_all)
        if step is not None:
            return step
    if seen.applied is not None and seen.applied.failed:
        return installed(seen, ())
    if seen.applied is not None and (held := held_back(kept(seen.applied), seen.rules)[1]):
        message = f"left in the cluster, because the module may not have it: {message_of(held)}"
        return refused(seen, POLICY_VIOLATION, message)
    return _readiness(seen)


def _objection(seen: ManifestSnapshot, rendering: RenderedModule) -> Objection | None:
    return objection_in(seen, rendering.objects, forbidden=ObjectsForbidden.reason)


def plan_removal(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    """Return the next step of the removal of a module that has something in its SKR."""
    found = seen.removal
    if found is None:
        return steps.FindModuleCRs(seen.inventory, default_cr(seen.resource, seen.options.namespace))
    return _default_crs(seen, found) or _in_use(seen, found) or _objects(seen, found)


def _default_crs(seen: ManifestSnapshot, found: Removal) -> ManifestStep | ManifestEnd | None:
    """First the default Module CRs. Their finalizers are removed only if no manager is left to act on them."""
    if undeleted := tuple(cr for cr, live in found.default_crs if not is_being_deleted(live)):
        return steps.DeleteDefaultCRs(undeleted)
    blocked = tuple((cr, live) for cr, live in found.default_crs if has_finalizers(live))
    if blocked and found.manager_missing is None:
        return steps.CheckManagersMissing(_running(seen))
    return steps.StripFinalizers(blocked) if blocked and found.manager_missing else None


def _running(seen: ManifestSnapshot) -> tuple[InventoryEntry, ...]:
    """Return what may run the module: its manager, and until that is applied the workloads of the version before."""
    named = managers_of(seen.resource.spec.manager, seen.before, seen.options.namespace)
    known = identities(seen.before)
    if any(each.identity in known for each in named):
        return named
    return (*named, *managers_of(None, seen.before))


def _in_use(seen: ManifestSnapshot, found: Removal) -> ManifestStep | ManifestEnd | None:
    """Then nothing, while users have objects of the module's kinds whose CRDs go, or while something is deleted."""
    if found.users_objects is None:
        going = tuple(each for each in found.kinds if not next_owners([crd_of(each)], seen.others))
        return steps.ListUsersObjects(going, _own(seen, found))
    is_blocked = bool(found.users_objects or found.default_crs)
    if is_blocked and not found.objects_deleted and (step := _upkeep(seen)) is not None:
        return step
    if found.users_objects:
        return waiting(
            seen, f"delete them first; they are deleted with the module: {listed(found.users_objects)}", users=True
        )
    if found.default_crs:
        return waiting(seen, f"waiting for deletion of {listed([str(cr) for cr, _ in found.default_crs])}")
    if seen.removed is not None and (left := seen.removed.inventory):
        named = listed([f"{each.kind} {each.name}" for each in left])
        return waiting(seen, f"waiting for deletion of {len(left)}: {named}")
    return None


def _upkeep(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd | None:
    """Return the next step towards the version that the Manifest names, as long as its removal is blocked.

    Whatever is wrong with that version, the removal goes on as soon as nothing blocks it.
    """
    manifest, error = seen.resource, seen.source_error
    if error is not None or is_left_alone(manifest) or names.MANIFEST_FINALIZER not in manifest.metadata.finalizers:
        return None
    step: ManifestStep | ManifestEnd | None
    if seen.rendering is None:
        step = _source(seen)
    elif seen.memory is None:
        step = steps.Connect()
    elif _objection(seen, seen.rendering) or (seen.applied is None and _is_applied(seen, seen.memory)):
        return None
    else:
        step = _application(seen, seen.rendering, check_all=False)
    return None if isinstance(step, End) else step


def _is_applied(seen: ManifestSnapshot, memory: ModuleMemory) -> bool:
    return seen.rendering is not None and memory.settled == seen.rendering.fingerprint


def _objects(seen: ManifestSnapshot, found: Removal) -> ManifestStep | ManifestEnd:
    """Then the objects of the inventory, the CRDs last. What other modules have is handed over to them."""
    stage = tuple(each for each in seen.inventory if found.objects_deleted or not is_crd(each))
    if shared := next_owners(stage, seen.others):
        return steps.HandOverObjects(shared)
    return DeleteObjects(stage) if stage or not found.objects_deleted else RemoveFinalizer()


def after_deleting(found: Removal, remaining: tuple[InventoryEntry, ...]) -> Removal:
    """Return what is known after objects were deleted, of which some may remain.

    Users may have created objects meanwhile: they are listed again before the CRDs are deleted.
    """
    if remaining:
        return found
    return replace(found, objects_deleted=True, users_objects=found.users_objects if found.objects_deleted else None)


def is_settled(applied: ApplyResult) -> bool:
    """Tell whether an apply left nothing to do before something changes."""
    return not applied.failed and not terminating(applied)


def _source(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    if (error := seen.source_error) is not None:
        awaited = isinstance(error, SourceAwaited)
        status = statuses.refused(seen.resource, seen.inventory, error.reason, str(error), seen.now, awaited=awaited)
        return ManifestDone(status=status, requeue_after=error.again_after_seconds)
    try:
        return steps.Render(source_in(seen.resource.spec.install.source))
    except SourceInvalid as invalid:
        return refused(seen, invalid.reason, str(invalid))


def _application(
    seen: ManifestSnapshot, rendering: RenderedModule, *, check_all: bool
) -> ManifestStep | ManifestEnd | None:
    """Return the next step towards the objects of a rendering in the SKR; None where none is left."""
    applied = seen.applied
    resolved, own_kinds = rendering.of_known_kinds, rendering.own_kinds
    intent = plan_intent(seen, resolved, own_kinds, finalizer=names.MANIFEST_FINALIZER, begun=statuses.begun)
    if intent is not None:
        return intent
    if applied is None:
        if shared := next_owners(seen.leftover, seen.others):
            return steps.HandOverObjects(shared)
        namespaces = (seen.default_namespace,) if _needs_namespace(seen) else ()
        new, recheck = frozenset(seen.wanted or ()) - {*seen.before}, check_all or seen.announced
        return ApplyObjects(rendering.objects, seen.intended, recheck=recheck, new=new, namespaces=namespaces)
    left_crds = tuple(each for each in kept(applied) if is_crd(each)) if not (seen.pruned or applied.failed) else ()
    if unknown := without(left_crds, seen.crd_objects):
        return steps.ListObjectsOfCRDs(unknown)
    in_use = [each for each in left_crds if seen.crd_objects.get(each) != ()]
    return plan_prune(seen, applied, rendering.objects, in_use)


def _needs_namespace(seen: ManifestSnapshot) -> bool:
    """Tell whether something goes into the shared namespace, unless that is kyma-system, which exists."""
    namespace, default = seen.options.namespace, default_cr(seen.resource, seen.options.namespace)
    used = {
        *(each.namespace for each in (*seen.leftover, *(seen.wanted or ()))),
        default.namespace if default is not None else "",
    }
    return namespace != names.SKR_NAMESPACE and namespace in used


def _readiness(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    """Return the next step to find out whether a module runs whose objects are applied.

    A module that was ready and has a default Module CR is checked by that alone: one request.
    """
    manifest, namespace = seen.resource, seen.options.namespace
    wanted = default_cr(manifest, namespace)
    status, generation = manifest.status, manifest.metadata.generation
    was_ready = status.state is State.READY and status.observed_generation == generation
    is_close = seen.applied is not None or not was_ready or wanted is None
    if is_close and seen.managers is None:
        named = manifest.spec.manager
        return steps.ReadManagers(
            managers_of(named, seen.inventory, namespace), optional_managers_of(named, seen.inventory)
        )
    managers = seen.managers or ()
    if wanted is not None and seen.module_cr is None:
        runs = all(each.readiness is not None and each.readiness.state == "Current" for each in managers)
        created = was_created(manifest, wanted)
        if runs or created:
            return steps.ReadModuleCR(wanted, created)
    return installed(seen, managers)


def _deletion(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    manifest = seen.resource
    finalizers, brake = manifest.metadata.finalizers, seen.brake
    is_ours = bool({names.MANIFEST_FINALIZER, *former.MANIFEST_FINALIZERS} & {*finalizers})
    if not finalizers:
        return steps.LeaveAlone()
    if brake.may_forget:
        return RemoveFinalizer(of_others=True)
    if not (is_ours or brake.hold):
        message = f"waiting as other finalizers are present: {', '.join(finalizers)}"  # upstream's words
        return ManifestDone(status=statuses.deleting(manifest, (), message, seen.now))
    if is_ours and names.IS_UNMANAGED in manifest.metadata.annotations:
        return RemoveFinalizer()  # its users manage what is in the SKR by now
    if is_ours and not (kyma_of_manifest(manifest) and has_objects(manifest, seen.before)):
        return RemoveFinalizer()
    if (hold := brake.hold) is not None:
        status = statuses.deleting(manifest, seen.inventory, f"waits for {hold.waits_for}", seen.now, hold.reason)
        return ManifestDone(status=status, requeue_after=hold.seconds)
    return plan_removal(seen)


def _own(seen: ManifestSnapshot, found: Removal) -> frozenset[Identity]:
    """Return what of the module's kinds is its own: none once its objects are deleted."""
    if found.objects_deleted:
        return frozenset()
    shared = next_owners(seen.inventory, seen.others)
    own = identities(each for each in seen.inventory if each not in shared)
    return own | {cr.identity for cr, _ in found.default_crs}
