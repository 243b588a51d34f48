"""What of a change is news, and what is bookkeeping that must wake nobody. Whatever comes or goes is news."""

from collections.abc import Mapping

from kube_runtime import Change
from lifecycle_manager.catalog_sync import CATALOG_RECORD
from lifecycle_manager.kyma import CRD_HASH
from lifecycle_manager.kyma_conditions import is_event_path_faulty as is_faulty
from lifecycle_manager.resources import DatedReleaseMeta
from lifecycle_manager.skr_webhook import TRUST_RECORD, WATCHER_RECORD
from lifecycle_manager.sync_resource import inventory_of
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, ModuleTemplate, ObjectMeta, SyncResource, Watcher, names

NOT_OURS_TO_HEED = frozenset({CRD_HASH, CATALOG_RECORD, WATCHER_RECORD, TRUST_RECORD})


def asks_for_more(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma's change is more than the times in its status."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.finalizers != new.metadata.finalizers
        or _marks_differ(old.metadata, new.metadata)
        or has_other_modules(change)
        or _verdicts(old) != _verdicts(new)
    )


def has_other_modules(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma's modules are to be looked at anew.

    They are where they resolve to other templates, start or stop being decided at all, or are due more or less often.
    """
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or _templates(old) != _templates(new)
        or (old.status.state == "") != (new.status.state == "")
        or is_faulty(old) != is_faulty(new)
        or old.metadata.being_deleted != new.metadata.being_deleted
    )


def offers_other(change: Change[ModuleTemplate] | Change[DatedReleaseMeta]) -> bool:
    """Tell whether a change of the catalog is more than bookkeeping."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.spec != new.spec
        or old.metadata.finalizers != new.metadata.finalizers
        or _marks_differ(old.metadata, new.metadata)
    )


def wants_other_module(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest's change is more than its status."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or _marks_differ(old.metadata, new.metadata)
        or _lost(names.MANIFEST_FINALIZER, old.metadata, new.metadata)
    )


def is_new_to_kyma(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest's change matters to its Kyma: what is wanted, or how it is."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or _marks_differ(old.metadata, new.metadata)
        or old.status.state != new.status.state
        or old.status.observed_generation != new.status.observed_generation
        or _operation(old) != _operation(new)
    )


def watches_other(change: Change[Watcher]) -> bool:
    """Tell whether a Watcher's change is more than its status."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def wants_other_objects(change: Change[SyncResource]) -> bool:
    """Tell whether a SyncResource's change is more than its status."""
    old, new, key = change.old, change.new, names.CREATE_NAMESPACES
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.annotations.get(key) != new.metadata.annotations.get(key)
        or _lost(names.SYNC_RESOURCE_FINALIZER, old.metadata, new.metadata)
    )


def has_let_go(change: Change[SyncResource]) -> bool:
    """Tell whether a SyncResource has given objects up that another one may want."""
    old, new = change.old, change.new
    return new is None or (old is not None and bool(_identities(old) - _identities(new)))


def is_in_other_state(change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a part of a Kyma is in another state than before."""
    old, new = change.old, change.new
    return old is None or new is None or old.status.state != new.status.state


def _marks_differ(old: ObjectMeta, new: ObjectMeta) -> bool:
    return (
        old.labels != new.labels
        or _heeded(old.annotations) != _heeded(new.annotations)
        or old.deletion_timestamp != new.deletion_timestamp
    )


def _heeded(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that somebody else may have written, and not we for ourselves."""
    return {key: value for key, value in annotations.items() if key not in NOT_OURS_TO_HEED}


def _lost(finalizer: str, old: ObjectMeta, new: ObjectMeta) -> bool:
    return finalizer in set(old.finalizers) - set(new.finalizers)


def _templates(kyma: Kyma) -> dict[str, object]:
    return {module.name: module.template for module in kyma.status.modules}


def _verdicts(kyma: Kyma) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in kyma.status.conditions}


def _operation(manifest: Manifest) -> str:
    return manifest.status.last_operation.operation if manifest.status.last_operation is not None else ""


def _identities(resource: SyncResource) -> set[tuple[str, str, str, str]]:
    return {entry.identity for entry in inventory_of(resource)}
