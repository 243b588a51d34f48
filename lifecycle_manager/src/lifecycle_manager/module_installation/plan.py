"""The plan of the removal of a module: its next step from a snapshot. Pure functions.

The order of the lines is the rule.

May delete: a module that is removed. First its default Module CR, while the manager can still clean up, and webhooks
that refuse that as no manager serves them; nothing else while users have objects of its kinds, which the CRD would take
along, or it has ModuleConfigs; then its objects; its CRDs last. As long as something blocks it, the module keeps
running and gets new versions: its manager may need one to clean up. None of it while the brake holds the deletion
(`skr.brake`). Only from the inventory, and never what another module has: that is handed over to it. Nor what existed
before: that is released to the users.
"""

from dataclasses import replace

from kube_runtime import ApiError, InventoryEntry
from kyma_oci import SourceInvalid
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest
from lifecycle_manager.module_installation import steps
from lifecycle_manager.module_installation.managers import managers_of
from lifecycle_manager.module_installation.reading import crd_of
from lifecycle_manager.module_installation.snapshot import (
    ManifestSnapshot,
    Removal,
    has_finalizers,
    has_objects,
    is_being_deleted,
    is_left_alone,
)
from lifecycle_manager.module_installation.status import braked, failed, held_by_others, waiting
from lifecycle_manager.module_installation.steps import (
    DeleteObjects,
    LeaveAlone,
    ManifestDone,
    ManifestEnd,
    ManifestStep,
    ReleaseFound,
    RemoveFinalizer,
)
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager.object_set.inventory import Identity, among, held_message, identities, is_crd, without
from lifecycle_manager.object_set.ownership import next_owners
from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import listed

_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
_UNSERVED = "Internal error occurred: failed calling webhook"


def plan(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    """Return the next step of the deletion of a Manifest, or its end."""
    manifest = seen.resource
    finalizers, brake = manifest.metadata.finalizers, seen.brake
    is_ours = any(each == names.MANIFEST_FINALIZER or is_former(each) for each in finalizers)
    if not finalizers:
        return LeaveAlone()
    if brake.may_forget:
        return RemoveFinalizer(of_others=True)
    if not (is_ours or brake.hold):
        return held_by_others(seen)
    if is_ours and names.IS_UNMANAGED in manifest.metadata.annotations:
        return RemoveFinalizer()  # its users manage what is in the SKR by now
    if is_ours and not (kyma_of_manifest(manifest) and has_objects(manifest, seen.before)):
        return RemoveFinalizer()
    return braked(seen, brake.hold) if brake.hold is not None else _removal(seen)


def _removal(seen: ManifestSnapshot) -> ManifestStep | ManifestEnd:
    """Return the next step of the removal of a module that has something in its SKR."""
    found = seen.removal
    if seen.unread is not None:
        return _unread(seen, seen.unread)
    if found is None:
        return steps.FindModuleCRs(seen.inventory, seen.default_cr)
    return _default_crs(seen, found) or _in_use(seen, found) or _objects(seen, found)


def _unread(seen: ManifestSnapshot, refused: ApiError) -> ManifestStep | ManifestDone:
    """A new version may serve the conversion. Later it would bring back what is deleted, again and again."""
    found = seen.removal or Removal(())
    is_tried = found.upgraded or found.objects_deleted
    return (None if is_tried else upgrade(seen)) or failed(seen, refused)


def _default_crs(seen: ManifestSnapshot, found: Removal) -> ManifestStep | ManifestDone | None:
    """First the default Module CRs. Their finalizers are removed only if no manager is left to act on them.

    Nor does anybody serve the module's webhooks then: those that can't be called and so refuse that are deleted before.
    """
    undeleted = tuple(cr for cr, live in found.default_crs if not is_being_deleted(live))
    if undeleted and found.refused is None:
        return steps.DeleteDefaultCRs(undeleted)
    blocked = tuple((cr, live) for cr, live in found.default_crs if has_finalizers(live))
    if (blocked or found.refused) and found.manager_missing is None:
        return steps.CheckManagersMissing(_running(seen))
    if found.refused is None:
        return steps.StripFinalizers(blocked) if blocked and found.manager_missing else None
    if seen.removed is not None:
        return failed(seen, found.refused)  # the server may not have learned yet that there is no webhook any more
    own = tuple(each for each in seen.inventory if each.kind in _WEBHOOKS and each.identity not in seen.found)
    own = without(own, next_owners(own, seen.others))
    return DeleteObjects(own) if own and found.manager_missing and _UNSERVED in found.refused.message else None


def _running(seen: ManifestSnapshot) -> tuple[InventoryEntry, ...]:
    """Return what may run the module: its manager, and until that is applied the workloads of the version before."""
    named = managers_of(seen.resource.spec.manager, seen.before, seen.options.namespace)
    known = identities(seen.before)
    if any(each.identity in known for each in named):
        return named
    return (*named, *managers_of(None, seen.before))


def _in_use(seen: ManifestSnapshot, found: Removal) -> ManifestStep | ManifestDone | None:
    """Then nothing, while users have objects of the module's kinds whose CRDs go, or while something is deleted."""
    if found.users_objects is None:
        staying = ((each, crd_of(each)) for each in found.kinds)
        going = tuple(
            each for each, crd in staying if not (next_owners([crd], seen.others) or crd.identity in seen.found)
        )
        # What goes with ModuleConfigs, for which the removal waits: users need not delete it. After that it is theirs.
        made = frozenset(str(MODULE_CONFIGS.key_of(each)) for each in seen.module_configs)
        return steps.ListUsersObjects(going, _own(seen, found), made)
    in_use, deleting = _configured(seen)
    is_blocked = bool(found.users_objects or found.default_crs or seen.module_configs)
    if is_blocked and not (found.objects_deleted or found.upgraded) and (step := upgrade(seen)) is not None:
        return step
    if found.users_objects:
        waits_for = f"delete them first; they are deleted with the module: {listed(found.users_objects)}"
        return waiting(seen, waits_for, needs_users=True)
    if in_use:
        return waiting(seen, f"delete them first: {listed(in_use)}", needs_users=True)
    if seen.configured_in_use:
        return waiting(seen, "; ".join(seen.configured_in_use), needs_users=True)
    if found.refused is not None:
        return failed(seen, found.refused)
    if found.default_crs:
        return waiting(seen, f"waiting for deletion of {listed([str(cr) for cr, _ in found.default_crs])}")
    if deleting:
        return waiting(seen, f"waiting for deletion of the objects of {listed(deleting)}")
    if seen.removed is not None and (held := seen.removed.held):
        waits_for = f"delete them first; they are deleted with the module: {'; '.join(map(held_message, held))}"
        return waiting(seen, waits_for, needs_users=True)
    if seen.removed is not None and (left := seen.removed.inventory):
        named = listed([f"{each.kind} {each.name}" for each in left])
        return waiting(seen, f"waiting for deletion of {len(left)}: {named}")
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


def upgrade(seen: ManifestSnapshot) -> steps.Upgrade | None:
    """Return the step towards the version that the Manifest names, as long as its removal is blocked.

    Whatever is wrong with that version, the removal goes on as soon as nothing blocks it.
    """
    manifest = seen.resource
    if is_left_alone(manifest) or names.MANIFEST_FINALIZER not in manifest.metadata.finalizers:
        return None
    try:
        return steps.Upgrade(source_in(manifest.spec.install.source))
    except SourceInvalid:
        return None


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


def after_deleting(found: Removal, inventory: tuple[InventoryEntry, ...]) -> Removal:
    """Return what is known after objects were deleted; the inventory is what remains.

    Users may have created objects meanwhile: they are listed again before the CRDs are deleted.
    """
    found = replace(found, refused=None)
    if any(found.objects_deleted or not is_crd(each) for each in inventory):
        return found
    return replace(found, objects_deleted=True, users_objects=found.users_objects if found.objects_deleted else None)


def _own(seen: ManifestSnapshot, found: Removal) -> frozenset[Identity]:
    """Return what of the module's kinds is its own: none once its objects are deleted."""
    if found.objects_deleted:
        return frozenset()
    own = identities(without(seen.inventory, next_owners(seen.inventory, seen.others))) - seen.found
    return own | {cr.identity for cr, _ in found.default_crs}
