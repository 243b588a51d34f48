"""The rules of the status of a Module CR: when it is written, and what.

May delete: nothing but fields of the status that Lifecycle Manager wrote itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from lifecycle_manager.contract.verdict import NOT_ACCESSIBLE, Verdict
from lifecycle_manager.module_cr_status.snapshot import Snapshot
from lifecycle_manager.module_cr_status.status import WAITING, Event, event_of, fields_of

SETTLING_SECONDS = 1.0
"""How long a change may be on its way until the status says so: most are in force before, and need one write."""
ACCESS_SECONDS = 30.0
"""How long other requests to the cluster may fail until the status says so: they are retried meanwhile."""
REPEAT_SECONDS = 360.0
"""After how long the same Event is a new one."""
PROGRESS_SECONDS = 10.0
"""How often the status says that a change is still on its way, and what it waits for."""


@dataclass(frozen=True, slots=True)
class ReadModuleCr:
    """Read what the kind has for fields, and what is written there."""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status, and an Event where it says something new."""

    fields: Mapping[str, Any]
    event: Event | None


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Write an Event, in place of a status that the kind does not have."""

    event: Event


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do until something changes, or for so many seconds."""

    requeue_after: float | None = None


Step = ReadModuleCr | WriteStatus | RecordEvent | Done


def is_done(step: Step) -> TypeGuard[Done]:
    """Tell whether a step is the last one."""
    return isinstance(step, Done)


def plan(seen: Snapshot) -> Step:
    """Return the next step."""
    if seen.reference is None or not seen.reference.uid or seen.is_gone or seen.is_left_alone:
        return Done()
    if seen.written is None or seen.schema is None:
        return ReadModuleCr()
    fields = fields_of(
        seen.verdict,
        seen.schema,
        written=seen.written,
        now=seen.now,
        with_module_status=not seen.module_status_refused,
    )
    event = event_of(seen.verdict)
    if event == seen.last_event and seen.seconds - seen.last_event_at < REPEAT_SECONDS:
        event = None
    is_written = fields in (seen.written, seen.refused)
    if is_written and (event is None or has_state(seen.written)):
        return Done()
    if (wait := _wait(seen)) > 0:
        return Done(wait)
    if not is_written:
        return WriteStatus(fields, event)
    return RecordEvent(event) if event is not None else Done()


def has_state(fields: Mapping[str, Any]) -> bool:
    """Tell whether these fields say what the state of a Module CR is."""
    return "state" in fields or "conditions" in fields


def _wait(seen: Snapshot) -> float:
    """Return for how many seconds a change that is on its way is left unmentioned."""
    if is_settled(seen.verdict):
        return 0.0
    since = seen.unsettled_since if seen.unsettled_since is not None else seen.seconds
    due = since + (ACCESS_SECONDS if seen.verdict.reason == NOT_ACCESSIBLE else SETTLING_SECONDS)
    if seen.last_event is not None and seen.last_event.reason == WAITING:
        due = max(due, seen.last_event_at + PROGRESS_SECONDS)
    return due - seen.seconds


def is_settled(verdict: Verdict) -> bool:
    """Tell whether a verdict is worth writing at once; that of an outage is outdated by the time it can be written."""
    return verdict.is_settled and verdict.reason != NOT_ACCESSIBLE
