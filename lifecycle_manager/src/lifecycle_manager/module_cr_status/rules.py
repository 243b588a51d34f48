"""The rules of the status of a Module CR: when it is written, and what.

Of a Module CR that stays when its ModuleConfig is deleted, the status is removed: nobody would correct it any more.

May delete: nothing but fields of the status that Lifecycle Manager wrote itself.
"""

from typing import NamedTuple

from lifecycle_manager.contract.verdict import NOT_ACCESSIBLE
from lifecycle_manager.module_cr_status.schema import NO_STATUS, StatusSchema
from lifecycle_manager.module_cr_status.snapshot import REFUSED_SECONDS, ModuleCrSnapshot, is_settled
from lifecycle_manager.module_cr_status.status import WAITING, Fields, ModuleCrEvent, event_of, fields_of
from lifecycle_manager_api import ResourceReference
from lifecycle_manager_api.known_kinds import kind_refusal

SETTLING_SECONDS = 1.0
"""How long a change may be on its way until the status says so: most are in force before, and need one write."""
ACCESS_SECONDS = 30.0
"""How long other requests to the cluster may fail until the status says so: they are retried meanwhile."""
REPEAT_SECONDS = 360.0
"""After how long the same Event is a new one."""
PROGRESS_SECONDS = 10.0
"""How often the status says that a change is still on its way, and what it waits for."""


class ToWrite(NamedTuple):
    """What the status does not say yet: its new fields, and an Event; nothing until so many seconds have passed."""

    fields: Fields | None = None
    event: ModuleCrEvent | None = None
    requeue_after: float | None = None


def reference_of(seen: ModuleCrSnapshot) -> ResourceReference | None:
    """Return which object has the status; None where no module may have its kind."""
    known = seen.config.spec.resource_ref
    if known is None or not known.uid:
        return None
    return known if kind_refusal(known.api_version, known.kind) is None else None


def to_write(seen: ModuleCrSnapshot, schema: StatusSchema) -> ToWrite:
    """Return what is to be written by now: nothing where it is not known what is written there.

    Where an operator writes the same fields, that is an Event alone.
    """
    memory = seen.memory
    if memory.written is None:
        return ToWrite()
    if memory.left_alone_at is not None and seen.seconds - memory.left_alone_at < REFUSED_SECONDS:
        schema = NO_STATUS
    refused = memory.refused_at(seen.seconds)
    fields = fields_of(
        seen.verdict,
        schema,
        known=(memory.written, refused or {}),
        now=seen.now,
        with_module_status=memory.module_status_refused != seen.verdict.status,
    )
    event = event_of(seen.verdict)
    if event == memory.last_event and seen.seconds - memory.last_event_at < REPEAT_SECONDS:
        event = None
    again = REFUSED_SECONDS if fields == refused else None
    is_written = fields in (memory.written, refused)
    if is_written and (event is None or memory.written.keys() & {"state", "conditions"}):
        return ToWrite(requeue_after=again)
    if (wait := _wait(seen)) > 0:
        return ToWrite(requeue_after=wait)
    return ToWrite(None if is_written else fields, event, again)


def _wait(seen: ModuleCrSnapshot) -> float:
    """Return for how many seconds a change that is on its way is left unmentioned."""
    if is_settled(seen.verdict):
        return 0.0
    memory = seen.memory
    since = memory.unsettled_since if memory.unsettled_since is not None else seen.seconds
    due = since + (ACCESS_SECONDS if seen.verdict.reason == NOT_ACCESSIBLE else SETTLING_SECONDS)
    if memory.last_event is not None and memory.last_event.reason == WAITING:
        due = max(due, memory.last_event_at + PROGRESS_SECONDS)
    return due - seen.seconds
