"""Kubernetes Events on the Kyma CR, in KCP and in the SKR: what changed between two statuses.

Reported are a state that changed, and the cause of a module in trouble. What stays the same is not reported again, and
neither is a state of the Kyma that an Event of a module explains.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from lifecycle_manager.kyma.reasons import MODULE_READY, MODULE_REMOVED, MORE_MODULES, READY
from lifecycle_manager_api import KymaStatus, State, find

MAX_MODULE_EVENTS = 20
_TROUBLE = frozenset({State.ERROR, State.WARNING})


class Event(NamedTuple):
    """The content of one Kubernetes Event."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def events_between(before: KymaStatus, after: KymaStatus) -> tuple[Event, ...]:
    """Return the Events of a change: of many modules the first, and one that counts the others."""
    of_modules = tuple(_of_modules(before, after))
    explained = {each.reason for each in of_modules}
    of_kyma = (each for each in _of_kyma(before, after) if each.reason not in explained)
    more = len(of_modules) - MAX_MODULE_EVENTS
    rest = (Event("Warning", MORE_MODULES, f"{more} more modules changed, see status.modules"),)
    return (*of_modules[:MAX_MODULE_EVENTS], *(rest if more > 0 else ()), *of_kyma)


def _of_modules(before: KymaStatus, after: KymaStatus) -> Iterator[Event]:
    known = {module.name: module for module in before.modules}
    for module in after.modules:
        old = known.pop(module.name, None)
        if module.state in _TROUBLE:
            if old is None or (old.state, old.message) != (module.state, module.message):
                yield Event("Warning", f"Module{module.state.value}", f"module {module.name}: {module.message}")
        elif old is not None and old.state is not module.state and module.state is State.READY:
            version = f" in version {module.version}" if module.version else ""
            yield Event("Normal", MODULE_READY, f"module {module.name} is ready{version}")
    for name in known:
        yield Event("Normal", MODULE_REMOVED, f"module {name} is removed")


def _of_kyma(before: KymaStatus, after: KymaStatus) -> Iterator[Event]:
    """Yield the Event of another state, with the reason of the condition Ready."""
    ready = find(after.conditions, READY)
    if before.state is not after.state and after.state is not State.EMPTY and ready is not None:
        operation = after.last_operation.operation if after.last_operation is not None else ""
        yield Event("Warning" if after.state in _TROUBLE else "Normal", ready.reason, operation)
