"""What the statuses and Events of all owners of sets have in common. Pure functions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from kube_runtime import ApplyResult, End, InventoryEntry, ObjectKey
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager.object_set.inventory import Identity, among, entries_of, identities, references_to
from lifecycle_manager.object_set.ownership import SetOwner
from lifecycle_manager.skr.announcement import ObservedObject
from lifecycle_manager_api import (
    Condition,
    KymaStatus,
    Manifest,
    ManifestStatus,
    ObjectMeta,
    State,
    SyncResource,
    SyncResourceStatus,
    find,
)
from lifecycle_manager_api.conditions import NewCondition, last_operation, set_conditions

TROUBLE = frozenset({State.ERROR, State.WARNING})
READY = "Ready"
"""The condition that sums up all others."""

Status = TypeVar("Status", KymaStatus, ManifestStatus, SyncResourceStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport(End):
    """Write the status of an owner; `error` is raised once that is done.

    `applied` is the result of this round; `shown` what it has read of objects that events announced, None where it has
    not read them. `lost` are objects that belong to another owner.
    """

    status: ManifestStatus | SyncResourceStatus
    applied: ApplyResult | None = None
    shown: Mapping[ObjectReference, ObservedObject] | None = None
    lost: frozenset[InventoryEntry] = frozenset()


def with_conditions(
    before: Status,
    metadata: ObjectMeta,
    now: datetime,
    *,
    conditions: Sequence[NewCondition],
    dropped: Collection[str] = (),
    operation: str = "",
    **fields: Any,
) -> Status:
    """Return a status with other conditions and fields, for the current generation, without `dropped` conditions.

    The last operation is the message of the last condition, if nothing else is given.
    """
    now = now.replace(microsecond=0)
    kept = tuple(each for each in before.conditions if each.type not in dropped)
    return msgspec.structs.replace(
        before,
        conditions=set_conditions(kept, conditions, metadata.generation, now),
        last_operation=last_operation(before.last_operation, operation or conditions[-1][3], now),
        observed_generation=metadata.generation,
        **fields,
    )


def with_found(
    status: ManifestStatus | SyncResourceStatus, found: Collection[Identity]
) -> ManifestStatus | SyncResourceStatus:
    """Return a status that says which objects of its inventory are the users'."""
    if not (found or status.found):
        return status
    theirs = among(entries_of(status.synced), found)
    if identities(theirs) == identities(entries_of(status.found)):
        return status
    return msgspec.structs.replace(status, found=references_to(theirs))


def cluster_of(resource: Manifest | SyncResource) -> str:
    """Return the name of the Kyma whose SKR the set is in."""
    return kyma_of_manifest(resource) if isinstance(resource, Manifest) else resource.spec.kyma


def set_owner(resource: Manifest | SyncResource) -> SetOwner:
    """Return a resource as the owner of its objects."""
    metadata = resource.metadata
    is_module = isinstance(resource, Manifest)
    module = module_of_manifest(resource) if isinstance(resource, Manifest) else resource.spec.module
    return SetOwner(ObjectKey(metadata.namespace, metadata.name), module, is_module=is_module)


def ready_transition(
    before: ManifestStatus | SyncResourceStatus, after: ManifestStatus | SyncResourceStatus
) -> Condition | None:
    """Return the Ready condition if its status or reason changed: that is worth an Event.

    Success at the first attempt is not: an Event would say no more than the status. Of a Manifest only where trouble
    begins or ends: that its module is ready is an Event of the Kyma.
    """
    old, ready = find(before.conditions, READY), find(after.conditions, READY)
    if ready is None or (old is not None and (old.status, old.reason) == (ready.status, ready.reason)):
        return None
    if isinstance(after, SyncResourceStatus):
        is_first = old is None or old.status == "Unknown"
        return None if is_first and ready.status == "True" else ready
    ends = before.state in TROUBLE and after.state is State.READY
    return ready if ends or after.state in TROUBLE else None
