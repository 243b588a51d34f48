"""The condition `Synced` of a ModuleConfig, with all its reasons."""

from datetime import datetime
from typing import NamedTuple

from lifecycle_manager.module_catalog.module_kinds import TemplateUnreadable
from lifecycle_manager.signals import ObjectReference
from lifecycle_manager.skr import failure_of
from lifecycle_manager_api import Condition, ConditionStatus, ModuleConfig, find, set_condition

SYNCED = "Synced"
"""The type of the condition."""

READ = "Read"
MODULE_CR_TOO_LARGE = "ModuleCRTooLarge"
TEMPLATE_UNREADABLE = "TemplateUnreadable"
# Other reasons are those of skr.failure for an SKR that can't be accessed.


class SyncedCondition(NamedTuple):
    """Status, reason and message of the condition."""

    status: ConditionStatus
    reason: str
    message: str


def read_from(source: ObjectReference, resource_version: str) -> SyncedCondition:
    """Return the condition of a ModuleConfig that was read from the Module CR."""
    return SyncedCondition("True", READ, f"read from {source} at resourceVersion {resource_version}")


def too_large(source: ObjectReference, *, size: int, limit: int) -> SyncedCondition:
    """Return the condition where the Module CR exceeds the limit."""
    message = f"{source} has {size} bytes as JSON text, more than the limit of {limit}; make it smaller"
    return SyncedCondition("False", MODULE_CR_TOO_LARGE, message)


def unreadable(reason: str, message: str) -> SyncedCondition:
    """Return the condition where the Module CRs can't be read."""
    return SyncedCondition("False", reason, message)


def failed(error: Exception) -> SyncedCondition:
    """Return the condition after a failure to read the Module CRs."""
    if isinstance(error, TemplateUnreadable):
        return unreadable(TEMPLATE_UNREADABLE, str(error))
    failure = failure_of(error)
    return unreadable(failure.reason, failure.message)


def has_condition(config: ModuleConfig, wanted: SyncedCondition) -> bool:
    """Tell whether a ModuleConfig has the condition already."""
    found = find(config.status.conditions, SYNCED)
    return found is not None and (found.status, found.reason, found.message) == wanted


def merged(config: ModuleConfig | None, wanted: SyncedCondition, now: datetime) -> Condition | None:
    """Return the condition to write; its transition time stays while its status is the same."""
    conditions = config.status.conditions if config is not None else ()
    condition = Condition(type=SYNCED, status=wanted.status, reason=wanted.reason, message=wanted.message)
    return find(set_condition(conditions, condition, now), SYNCED)
