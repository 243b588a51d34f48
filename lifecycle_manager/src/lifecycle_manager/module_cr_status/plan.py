"""The rules of the status of a Module CR: when it is written, and what.

Of a Module CR that stays when its ModuleConfig is deleted, the status is removed: nobody would correct it any more.

May delete: nothing but fields of the status that Lifecycle Manager wrote itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime import End, KindUnknown, NotFound, Step
from lifecycle_manager.contract.verdict import NOT_ACCESSIBLE
from lifecycle_manager.module_cr_status.snapshot import REFUSED_SECONDS, ModuleCrSnapshot, is_settled
from lifecycle_manager.module_cr_status.status import WAITING, ModuleCrEvent, event_of, fields_of
from lifecycle_manager.skr import SkrAccessError
from lifecycle_manager_api.known_kinds import kind_refusal

SETTLING_SECONDS = 1.0
"""How long a change may be on its way until the status says so: most are in force before, and need one write."""
ACCESS_SECONDS = 30.0
"""How long other requests to the cluster may fail until the status says so: they are retried meanwhile."""
REPEAT_SECONDS = 360.0
"""After how long the same Event is a new one."""
PROGRESS_SECONDS = 10.0
"""How often the status says that a change is still on its way, and what it waits for."""


@dataclass(frozen=True, slots=True)
class ReadModuleCr(Step):
    """Read what the kind has for fields, and what is written there."""


@dataclass(frozen=True, slots=True)
class WriteStatus(Step):
    """Write the status, and an Event where it says something new."""

    fields: Mapping[str, Any]
    event: ModuleCrEvent | None


@dataclass(frozen=True, slots=True)
class RecordEvent(Step):
    """Write an Event, in place of a status that the kind does not have."""

    event: ModuleCrEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCrDone(End):
    """Nothing is left to do until something changes, or for so many seconds.

    `forgets`: the object or its kind is gone, so what was read of it does not count any more.
    """

    forgets: bool = False


ModuleCrStep = ReadModuleCr | WriteStatus | RecordEvent


def plan(seen: ModuleCrSnapshot) -> ModuleCrStep | ModuleCrDone:
    """Return the next step. Without the object or its kind there is nothing to write to."""
    if seen.error is not None:
        is_gone = isinstance(seen.error, NotFound | KindUnknown)
        is_over = is_gone or (seen.is_released and isinstance(seen.error, SkrAccessError))  # its cluster may be gone
        return ModuleCrDone(forgets=is_gone, error=None if is_over else seen.error)
    known = seen.reference
    if known is None or not known.uid or seen.is_gone or seen.is_left_alone:
        return ModuleCrDone()
    if kind_refusal(known.api_version, known.kind) is not None:
        return ModuleCrDone()
    if seen.written is None or seen.schema is None or (seen.is_released and seen.is_terminating is None):
        return ReadModuleCr()
    if seen.is_released and not seen.is_terminating:
        return WriteStatus({}, None) if seen.written else ModuleCrDone()
    fields = fields_of(
        seen.verdict,
        seen.schema,
        known=(seen.written, seen.refused or {}),
        now=seen.now,
        with_module_status=not seen.module_status_refused,
    )
    event = event_of(seen.verdict)
    if event == seen.last_event and seen.seconds - seen.last_event_at < REPEAT_SECONDS:
        event = None
    is_written = fields in (seen.written, seen.refused)
    if is_written and (event is None or has_state(seen.written)):
        return ModuleCrDone(requeue_after=REFUSED_SECONDS if fields == seen.refused else None)
    if (wait := _wait(seen)) > 0:
        return ModuleCrDone(requeue_after=wait)
    if not is_written:
        return WriteStatus(fields, event)
    return RecordEvent(event) if event is not None else ModuleCrDone()


def has_state(fields: Mapping[str, Any]) -> bool:
    return "state" in fields or "conditions" in fields


def _wait(seen: ModuleCrSnapshot) -> float:
    """Return for how many seconds a change that is on its way is left unmentioned."""
    if is_settled(seen.verdict):
        return 0.0
    since = seen.unsettled_since if seen.unsettled_since is not None else seen.seconds
    due = since + (ACCESS_SECONDS if seen.verdict.reason == NOT_ACCESSIBLE else SETTLING_SECONDS)
    if seen.last_event is not None and seen.last_event.reason == WAITING:
        due = max(due, seen.last_event_at + PROGRESS_SECONDS)
    return due - seen.seconds
