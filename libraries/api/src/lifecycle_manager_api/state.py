"""The state of a resource, and the aggregate of several states."""

from collections.abc import Container, Iterable
from enum import StrEnum


class State(StrEnum):
    """The state of a resource."""

    PROCESSING = "Processing"
    DELETING = "Deleting"
    READY = "Ready"
    ERROR = "Error"
    EMPTY = ""
    WARNING = "Warning"
    UNMANAGED = "Unmanaged"

    def among(self, values: Container[str] | None) -> str | None:
        """Return the state as a field of some values has it; None where the field has not even the nearest state.

        A field without an enumeration, None, has any state. Nearest to each other are Warning and Error, and to
        Processing, which is not Ready either, is Warning.
        """
        others = {State.PROCESSING: State.WARNING, State.WARNING: State.ERROR, State.ERROR: State.WARNING}
        nearest = others.get(self, self)
        return next((each.value for each in (self, nearest) if values is None or each.value in values), None)


def aggregate(states: Iterable[State]) -> State:
    """Return the aggregate of the states of parts: Error, else Warning, else Processing, else Ready.

    A part that is Deleting or has no state counts as Processing, an Unmanaged one as Ready.
    """
    found = set(states)
    for state in (State.ERROR, State.WARNING, State.PROCESSING):
        if state in found:
            return state
    return State.PROCESSING if found & {State.DELETING, State.EMPTY} else State.READY
