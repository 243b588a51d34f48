"""The conditions `Synced` and `Complete` of a ModuleConfig, with all their reasons."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from lifecycle_manager.contract.conditions import COMPLETE
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import (
    MODULE_CR_TOO_LARGE,
    MODULE_CR_UNREADABLE,
    QUOTA_EXCEEDED,
    SYNCED,
)
from lifecycle_manager.module_catalog.module_kinds import TemplateUnreadable
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager_api import Condition, ConditionStatus, ModuleConfig, find, set_condition
from lifecycle_manager_api.conditions import counted, listed, shortened

READ = "Read"
WITHIN_QUOTA = "WithinQuota"
TEMPLATE_UNREADABLE = "TemplateUnreadable"
# Further reasons are in contract.verdict, and those of skr.failure for an SKR that can't be accessed.


class SyncedCondition(NamedTuple):
    """Status, reason and message of the condition, and its type."""

    status: ConditionStatus
    reason: str
    message: str
    type: str = SYNCED


def read_from(source: ObjectReference) -> SyncedCondition:
    """Return the condition of a ModuleConfig that was read from the Module CR; its reference says which version."""
    return SyncedCondition("True", READ, f"read from {source}")


def too_large(source: ObjectReference, why: str) -> SyncedCondition:
    """Return the condition where the Module CR exceeds a limit."""
    return SyncedCondition("False", MODULE_CR_TOO_LARGE, f"{source} is too large: {why}; make it smaller")


def undecodable(source: ObjectReference, why: str) -> SyncedCondition:
    """Return the condition where the Module CR can't be decoded."""
    return SyncedCondition("False", MODULE_CR_UNREADABLE, shortened(f"{source} can't be read: {why}"))


def over_bytes(source: ObjectReference, max_bytes: int) -> SyncedCondition:
    """Return the condition where the new text of a Module CR exceeds the quota."""
    message = f"{source} has a text with which those of the module exceed the quota of {max_bytes} bytes"
    return SyncedCondition("False", QUOTA_EXCEEDED, message)


def beyond_quota(sources: Sequence[ObjectReference], *, max_objects: int, max_bytes: int) -> SyncedCondition:
    """Return the condition that names Module CRs without ModuleConfig."""
    named = listed([f"{each.namespace}/{each.name}".lstrip("/") for each in sources])
    exceeds, is_not = ("exceeds", "is not") if len(sources) == 1 else ("exceed", "are not")
    message = (
        f"{counted(len(sources), 'Module CR')} {exceeds} the quota of {max_objects} objects and {max_bytes} bytes "
        f"and {is_not} synchronized: {named}"
    )
    return SyncedCondition("False", QUOTA_EXCEEDED, shortened(message), COMPLETE)


def within_quota() -> SyncedCondition:
    """Return the condition where every Module CR has a ModuleConfig again."""
    return SyncedCondition("True", WITHIN_QUOTA, "every Module CR is synchronized", COMPLETE)


def failed(error: Exception) -> SyncedCondition:
    """Return the condition where the Module CRs can't be read."""
    if isinstance(error, TemplateUnreadable):
        return SyncedCondition("False", TEMPLATE_UNREADABLE, str(error))
    failure = failure_of(error)
    return SyncedCondition("False", failure.reason, failure.message)


def has_condition(config: ModuleConfig, wanted: SyncedCondition) -> bool:
    found = find(config.status.conditions, wanted.type)
    return found is not None and (found.status, found.reason, found.message) == wanted[:3]


def is_incomplete(config: ModuleConfig) -> bool:
    """Tell whether a ModuleConfig says that Module CRs exceed the quota."""
    found = find(config.status.conditions, COMPLETE)
    return found is not None and found.status == "False"


def merged(config: ModuleConfig | None, wanted: SyncedCondition, now: datetime) -> Condition | None:
    """Return the condition to write; its transition time stays while its status is the same."""
    conditions = config.status.conditions if config is not None else ()
    condition = Condition(type=wanted.type, status=wanted.status, reason=wanted.reason, message=wanted.message)
    return find(set_condition(conditions, condition, now), wanted.type)
