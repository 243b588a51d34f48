"""Which changes of SyncResources and Kymas have SyncResources reconciled."""

from kube_runtime import Change, Informer, ObjectKey
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed
from lifecycle_manager.contract.verdict import config_of
from lifecycle_manager.object_set.inventory import identities, inventory_of
from lifecycle_manager.sync_resource.rules import creates_namespaces, is_paused
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, names


def changed_for_user(configs: Informer[ModuleConfig], change: Change[SyncResource]) -> bool:
    """Tell whether a SyncResource changed and was made from what a user last changed: the user waits for it."""
    return spec_changed(change) and users_change_arrived(configs, change)


def changed_by_manager_alone(configs: Informer[ModuleConfig], change: Change[SyncResource]) -> bool:
    """Tell whether a SyncResource changed, and not for a user. Never both: a change is reconciled once."""
    return spec_changed(change) and not users_change_arrived(configs, change)


def users_change_arrived(configs: Informer[ModuleConfig], change: Change[SyncResource]) -> bool:
    """Tell whether a SyncResource was made from the change of a Module CR that was last written to its ModuleConfig.

    Its user waits for it. What a Module Manager alone says of that does not count, nor what a restore brings back.
    """
    if change.new is None:
        return False
    was_observed_at = observed_at_of(change.old) if change.old is not None else ""
    config = configs.get(ObjectKey(change.new.metadata.namespace, config_of(change.new)))
    return config is not None and was_observed_at < observed_at_of(change.new) == observed_at_of(config) != ""


def observed_at_of(resource: ModuleConfig | SyncResource) -> str:
    """Return when the cluster of a user saw the change that a resource was made from; empty where that is not known."""
    return resource.metadata.annotations.get(names.OBSERVED_AT, "")


def spec_changed(change: Change[SyncResource]) -> bool:
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or generation_changed(change)
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or creates_namespaces(old) != creates_namespaces(new)
        or finalizer_removed(names.SYNC_RESOURCE_FINALIZER, change)
    )


def lost_objects(change: Change[SyncResource] | Change[Manifest]) -> bool:
    """Tell whether objects left the inventory of a SyncResource or a Manifest, so that another one may take them."""
    old, new = change.old, change.new
    if old is None or new is None:
        return new is None
    return old.status.synced != new.status.synced and bool(
        identities(inventory_of(old)) - identities(inventory_of(new))
    )


def kyma_deletion_began(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma is deleted, or was marked for deletion."""
    old, new = change.old, change.new
    return new is None or (new.metadata.being_deleted and (old is None or not old.metadata.being_deleted))


def modules_added_or_removed(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma has other modules than before."""
    old, new = ({each.name for each in kyma.status.modules} if kyma else set() for kyma in (change.old, change.new))
    return old != new


def pause_ended(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma is no longer paused: what waited is carried out."""
    return is_paused(change.old) and not is_paused(change.new)
