"""Kubernetes Events on the Kyma CR, in KCP and in the SKR: what changed between two statuses.

Reported are the end of a change, and the cause of a module in trouble. What stays the same is not reported again, and
neither is a state of the Kyma that an Event of a module explains, nor that something is under way. Modules that are
ready or removed at the same time have one Event, in the SKR: operators of KCP have one of the Kyma.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from lifecycle_manager.kyma.reasons import MODULE_READY, MODULE_REMOVED, MORE_MODULES, READY
from lifecycle_manager_api import KymaStatus, State, find
from lifecycle_manager_api.conditions import listed

MAX_MODULE_EVENTS = 20
_TROUBLE = frozenset({State.ERROR, State.WARNING})
_UNDER_WAY = frozenset({State.EMPTY, State.PROCESSING})


class KymaEvent(NamedTuple):
    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def events_between(before: KymaStatus, after: KymaStatus) -> tuple[KymaEvent, ...]:
    """Return the Events of a change: of many modules in trouble the first, and one that counts the others."""
    in_trouble = tuple(_in_trouble(before, after))
    explained = {each.reason for each in in_trouble}
    of_kyma = (each for each in _of_kyma(before, after) if each.reason not in explained)
    more = len(in_trouble) - MAX_MODULE_EVENTS
    rest = (KymaEvent("Warning", MORE_MODULES, f"{more} more modules changed, see status.modules"),)
    return (*in_trouble[:MAX_MODULE_EVENTS], *(rest if more > 0 else ()), *_done(before, after), *of_kyma)


def for_operators(events: Iterable[KymaEvent]) -> tuple[KymaEvent, ...]:
    return tuple(each for each in events if each.reason != MODULE_READY)


def _in_trouble(before: KymaStatus, after: KymaStatus) -> Iterator[KymaEvent]:
    known = {module.name: (module.state, module.message) for module in before.modules}
    for module in after.modules:
        if module.state in _TROUBLE and known.get(module.name) != (module.state, module.message):
            yield KymaEvent("Warning", f"Module{module.state.value}", f"module {module.name}: {module.message}")


def _done(before: KymaStatus, after: KymaStatus) -> Iterator[KymaEvent]:
    """Yield one Event of the modules that became ready, and one of those that are removed."""
    known = {module.name: (module.state, module.version) for module in before.modules}
    ready = [
        f"{module.name} {module.version}".rstrip()
        for module in after.modules
        if module.state is State.READY and known.get(module.name) != (State.READY, module.version)
    ]
    removed = sorted(known.keys() - {module.name for module in after.modules})
    for names, reason, what in ((ready, MODULE_READY, "ready"), (removed, MODULE_REMOVED, "removed")):
        if len(names) == 1:
            yield KymaEvent("Normal", reason, f"module {names[0]} is {what}")
        elif names:
            yield KymaEvent("Normal", reason, f"modules {listed(names, MAX_MODULE_EVENTS)} are {what}")


def _of_kyma(before: KymaStatus, after: KymaStatus) -> Iterator[KymaEvent]:
    """Yield the Event of another state, with the reason of the condition Ready."""
    ready = find(after.conditions, READY)
    if before.state is not after.state and after.state not in _UNDER_WAY and ready is not None:
        operation = after.last_operation.operation if after.last_operation is not None else ""
        yield KymaEvent("Warning" if after.state in _TROUBLE else "Normal", ready.reason, operation)
