"""The rules of a Manifest: its next step from a snapshot. Pure functions, no I/O. The order of the lines is the rule.

May delete:
- `_removal`: a module that is removed. First its default Module CR, while the manager can still clean up; nothing
  else while users have objects of its kinds, which the CRD would take along, or it has ModuleConfigs; then its objects;
  its CRDs last. As long as something blocks it, the module keeps running and gets new versions: its manager may need
  one to clean up.
- `plan_prune`: objects that a new version no longer has; in a round with a failure only what may be its
  reason, such as a webhook; no CRD that has objects.
- None of it while the brake holds the deletion (`skr.deletion_brake`).
- Both only from the inventory, and never what another module has: that is handed over to it. Nor what existed before:
  that is released to the users.
"""

from dataclasses import replace

from kube_runtime import ApplyResult, InventoryEntry, once_each
from kyma_oci import SourceInvalid
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import POLICY_VIOLATION
from lifecycle_manager.module_catalog import kyma_of_manifest
from lifecycle_manager.module_installation import steps
from lifecycle_manager.module_installation.ending import (
    MAX_BUSY_SECONDS,
    ended,
    is_just_applied,
    orphaned_in,
    terminating,
)
from lifecycle_manager.module_installation.managers import managers_of, optional_managers_of
from lifecycle_manager.module_installation.reading import crd_of
from lifecycle_manager.module_installation.rendering import ObjectsForbidden, RenderedModule
from lifecycle_manager.module_installation.snapshot import (
    ManifestSnapshot,
    Removal,
    has_finalizers,
    has_objects,
    is_being_deleted,
    is_left_alone,
    was_ready,
)
from lifecycle_manager.module_installation.status import KYMA_UNNAMED, ORPHANED, begun, ready_version, was_created
from lifecycle_manager.module_installation.steps import (
    ManifestEnd,
    ManifestOutcome,
    ManifestRefused,
    ManifestStep,
    ModuleInstalled,
    ModuleReleased,
    OthersFinalizers,
    RemovalWaits,
)
from lifecycle_manager.module_sources import SourceAwaited, source_in
from lifecycle_manager.object_set.inventory import Identity, among, held_message, identities, is_crd, listed, without
from lifecycle_manager.object_set.owner_writes import RecordingFailed
from lifecycle_manager.object_set.ownership import next_owners
from lifecycle_manager.object_set.plan import left_by_policy, objection_in, plan_intent, plan_prune
from lifecycle_manager.object_set.rules import kept, message_of
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    NothingApplied,
    ReleaseFound,
    RemoveFinalizer,
    SetBraked,
    SetFailed,
)
from lifecycle_manager_api import State, boolean, names

Found = ManifestStep | RemoveFinalizer | steps.LeaveAlone | steps.WaitForCheck | NothingApplied | ManifestOutcome


def plan(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    found = _plan(seen)
    return ended(seen, found) if isinstance(found, ManifestOutcome) else found


def _plan(seen: ManifestSnapshot) -> Found:
    manifest, error = seen.resource, seen.error
    if isinstance(error, RecordingFailed):
        return NothingApplied(error=error)
    if error is not None:
        return SetFailed(error)
    if manifest.metadata.being_deleted:
        return _deletion(seen)
    if is_left_alone(manifest):
        return _release(seen)
    kyma = kyma_of_manifest(manifest)
    if not kyma:
        return ManifestRefused(KYMA_UNNAMED, f"the label {names.KYMA_NAME} does not name the Kyma")
    if orphaned_in(seen) <= 0:
        message = f"Kyma {kyma} does not exist or does not have this Manifest; delete it"
        return ManifestRefused(ORPHANED, message, MAX_BUSY_SECONDS)
    if seen.seconds_until_check and _is_settled(seen):
        return steps.WaitForCheck(requeue_after=seen.seconds_until_check)
    return _source(seen) if seen.rendering is None else _installation(seen, seen.rendering)


def _is_settled(seen: ManifestSnapshot) -> bool:
    """Tell whether the status says all that a reconcile would find out, but for what a check at the interval reads.

    Not where something else may have changed meanwhile: a default Module CR, a policy, or what a rollout released.
    """
    manifest, status = seen.resource, seen.resource.status
    return (
        was_ready(manifest)
        and seen.default_cr is None
        and seen.rules is None
        and seen.is_named
        and status.ready_version == ready_version(manifest, State.READY, seen.now)
    )


def _release(seen: ManifestSnapshot) -> Found:
    """Release the objects of a module that is unmanaged, once."""
    manifest, default = seen.resource, seen.default_cr
    is_skipped = boolean(manifest.metadata.labels, names.SKIP_RECONCILIATION)
    if is_skipped or manifest.status.state is State.UNMANAGED or not kyma_of_manifest(manifest):
        return steps.LeaveAlone()
    if seen.released:
        return ModuleReleased()
    return steps.ReleaseObjects((*seen.inventory, *((default.entry,) if default is not None else ())))


def _installation(seen: ManifestSnapshot, rendering: RenderedModule) -> Found:
    """Return the next step of a module whose objects are known."""
    if (objection := objection_in(seen, rendering.objects, forbidden=ObjectsForbidden.reason)) is not None:
        return ManifestRefused(*objection)
    memory = seen.memory
    if memory is None:
        return steps.Connect()
    if seen.applied is not None or memory.check_all or seen.announced or memory.settled != rendering.fingerprint:
        step = _application(seen, rendering, check_all=memory.check_all)
        if step is not None:
            return step
    if seen.applied is not None and seen.applied.failed:
        return ModuleInstalled()
    if held := left_by_policy(seen):
        message = f"left in the cluster, because the module may not have it: {message_of(held)}"
        return ManifestRefused(POLICY_VIOLATION, message)
    return _readiness(seen)


def _removal(seen: ManifestSnapshot) -> Found:
    """Return the next step of the removal of a module that has something in its SKR."""
    found = seen.removal
    if found is None:
        return steps.FindModuleCRs(seen.inventory, seen.default_cr)
    return _default_crs(seen, found) or _in_use(seen, found) or _objects(seen, found)


def _default_crs(seen: ManifestSnapshot, found: Removal) -> ManifestStep | None:
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


def _in_use(seen: ManifestSnapshot, found: Removal) -> ManifestStep | RemovalWaits | None:
    """Then nothing, while users have objects of the module's kinds whose CRDs go, or while something is deleted."""
    if found.users_objects is None:
        staying = ((each, crd_of(each)) for each in found.kinds)
        going = tuple(
            each for each, crd in staying if not (next_owners([crd], seen.others) or crd.identity in seen.found)
        )
        return steps.ListUsersObjects(going, _own(seen, found))
    in_use, deleting = _configured(seen)
    is_blocked = bool(found.users_objects or found.default_crs or seen.module_configs)
    if is_blocked and not found.objects_deleted and (step := _upkeep(seen)) is not None:
        return step
    if found.users_objects:
        waits_for = f"delete them first; they are deleted with the module: {listed(found.users_objects)}"
        return RemovalWaits(waits_for, needs_users=True)
    if in_use:
        return RemovalWaits(f"delete them first: {listed(in_use)}", needs_users=True)
    if found.default_crs:
        return RemovalWaits(f"waiting for deletion of {listed([str(cr) for cr, _ in found.default_crs])}")
    if deleting:
        return RemovalWaits(f"waiting for deletion of the objects of {listed(deleting)}")
    if seen.removed is not None and (held := seen.removed.held):
        waits_for = f"delete them first; they are deleted with the module: {'; '.join(map(held_message, held))}"
        return RemovalWaits(waits_for, needs_users=True)
    if seen.removed is not None and (left := seen.removed.inventory):
        named = listed([f"{each.kind} {each.name}" for each in left])
        return RemovalWaits(f"waiting for deletion of {len(left)}: {named}")
    return None


def _configured(seen: ManifestSnapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the Module CRs of users that have ModuleConfigs, and those whose objects are being deleted.

    The default one is deleted by now: it has a ModuleConfig until that is read. The Manifest may hold the rights by
    which its objects are deleted.
    """
    default = seen.default_cr.entry.identity if seen.default_cr is not None else None
    in_use: list[str] = []
    deleting: list[str] = []
    for config in seen.module_configs:
        found = ObjectReference.to(config.spec.resource_ref) if config.spec.resource_ref is not None else None
        is_over = config.metadata.being_deleted or found == default
        named = (
            f"{found.kind} {found.namespace}/{found.name}".replace(" /", " ") if found is not None else "a Module CR"
        )
        (deleting if is_over else in_use).append(named)
    return tuple(sorted(in_use)), tuple(sorted(deleting))


def _upkeep(seen: ManifestSnapshot) -> ManifestStep | None:
    """Return the next step towards the version that the Manifest names, as long as its removal is blocked.

    Whatever is wrong with that version, the removal goes on as soon as nothing blocks it.
    """
    manifest, rendering, memory = seen.resource, seen.rendering, seen.memory
    if is_left_alone(manifest) or names.MANIFEST_FINALIZER not in manifest.metadata.finalizers:
        return None
    if rendering is None:
        found = _source(seen)
        return found if isinstance(found, steps.Render) else None
    if memory is None:
        return steps.Connect()
    is_applied = seen.applied is None and memory.settled == rendering.fingerprint
    if is_applied or objection_in(seen, rendering.objects) is not None:
        return None
    return _application(seen, rendering, check_all=False)


def _objects(seen: ManifestSnapshot, found: Removal) -> ManifestStep | RemoveFinalizer:
    """Then the objects of the inventory, the CRDs last.

    What other modules have is handed over to them, and what existed before is released to the users.
    """
    stage = tuple(each for each in seen.inventory if found.objects_deleted or not is_crd(each))
    if shared := next_owners(stage, seen.others):
        return steps.HandOverObjects(shared)
    if left := among(stage, seen.found):
        return ReleaseFound(left)
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


def _source(seen: ManifestSnapshot) -> steps.Render | ManifestRefused:
    if (error := seen.source_error) is not None:
        is_awaited = isinstance(error, SourceAwaited)
        return ManifestRefused(error.reason, str(error), error.again_after_seconds, is_awaited)
    try:
        return steps.Render(source_in(seen.resource.spec.install.source))
    except SourceInvalid as invalid:
        return ManifestRefused(invalid.reason, str(invalid))


def _application(seen: ManifestSnapshot, rendering: RenderedModule, *, check_all: bool) -> ManifestStep | None:
    """Return the next step towards the objects of a rendering in the SKR; None where none is left."""
    applied = seen.applied
    resolved, own_kinds = rendering.of_known_kinds, rendering.own_kinds
    intent = plan_intent(seen, resolved, own_kinds, finalizer=names.MANIFEST_FINALIZER, begun=begun)
    if intent is not None:
        return intent
    objects, _ = once_each(rendering.objects, seen.namespace_of)
    if applied is None:
        if shared := next_owners(seen.leftover, seen.others):
            return steps.HandOverObjects(shared)
        namespaces = (seen.default_namespace,) if _needs_namespace(seen) else ()
        new, recheck = frozenset(seen.wanted or ()) - {*seen.before}, check_all or seen.announced
        return ApplyObjects(objects, seen.intended, recheck=recheck, new=new, namespaces=namespaces, found=seen.found)
    pruned = () if seen.pruned or applied.failed else kept(applied)
    left_crds = tuple(each for each in pruned if is_crd(each) and each.identity not in seen.found)
    if unknown := without(left_crds, seen.crd_objects):
        return steps.ListObjectsOfCRDs(unknown)
    in_use = [each for each in left_crds if seen.crd_objects.get(each) != ()]
    return plan_prune(seen, applied, in_use)


def _needs_namespace(seen: ManifestSnapshot) -> bool:
    """Tell whether something goes into the shared namespace, unless that is kyma-system, which exists."""
    namespace, default = seen.options.namespace, seen.default_cr
    used = {
        *(each.namespace for each in (*seen.leftover, *(seen.wanted or ()))),
        default.namespace if default is not None else "",
    }
    return namespace != names.SKR_NAMESPACE and namespace in used


def _readiness(seen: ManifestSnapshot) -> ManifestStep | ModuleInstalled:
    """Return the next step to find out whether a module runs whose objects are applied.

    A module that was ready and has a default Module CR is checked by that alone: one request. Right after an apply that
    CR is not read while the manager starts: what it says then is not written.
    """
    if seen.module_cr is not None:
        return ModuleInstalled()
    manifest, wanted = seen.resource, seen.default_cr
    is_close = seen.applied is not None or not was_ready(manifest) or wanted is None
    if is_close and seen.managers is None:
        named = manifest.spec.manager
        managers = managers_of(named, seen.inventory, seen.options.namespace)
        return steps.ReadManagers(managers, optional_managers_of(named, seen.inventory))
    if wanted is not None:
        states = {each.readiness.state if each.readiness is not None else "Failed" for each in seen.managers or ()}
        created, starts = was_created(manifest, wanted), "Failed" not in states and is_just_applied(seen)
        if states <= {"Current"} or (created and not starts):
            return steps.ReadModuleCR(wanted, created)
    return ModuleInstalled()


def _deletion(seen: ManifestSnapshot) -> Found:
    manifest = seen.resource
    finalizers, brake = manifest.metadata.finalizers, seen.brake
    is_ours = any(each == names.MANIFEST_FINALIZER or is_former(each) for each in finalizers)
    if not finalizers:
        return steps.LeaveAlone()
    if brake.may_forget:
        return RemoveFinalizer(of_others=True)
    if not (is_ours or brake.hold):
        return OthersFinalizers()
    if is_ours and names.IS_UNMANAGED in manifest.metadata.annotations:
        return RemoveFinalizer()  # its users manage what is in the SKR by now
    if is_ours and not (kyma_of_manifest(manifest) and has_objects(manifest, seen.before)):
        return RemoveFinalizer()
    return SetBraked(brake.hold) if brake.hold is not None else _removal(seen)


def _own(seen: ManifestSnapshot, found: Removal) -> frozenset[Identity]:
    """Return what of the module's kinds is its own: none once its objects are deleted."""
    if found.objects_deleted:
        return frozenset()
    own = identities(without(seen.inventory, next_owners(seen.inventory, seen.others))) - seen.found
    return own | {cr.identity for cr, _ in found.default_crs}
