"""The state of a resource, and how the states of parts add up."""

from collections.abc import Iterable
from enum import StrEnum


class State(StrEnum):
    """What a resource says of itself."""

    PROCESSING = "Processing"
    DELETING = "Deleting"
    READY = "Ready"
    ERROR = "Error"
    EMPTY = ""
    WARNING = "Warning"
    UNMANAGED = "Unmanaged"


def aggregate(states: Iterable[State], deleting: bool = False) -> State:
    """Return what the states of parts add up to: Error, else Warning, else Processing, else Ready.

    A part that is being deleted, or says nothing yet, is being processed; an unmanaged one disturbs nobody. What is
    being deleted itself is Deleting, whatever its parts are.
    """
    if deleting:
        return State.DELETING
    found = set(states)
    for state in (State.ERROR, State.WARNING, State.PROCESSING):
        if state in found:
            return state
    return State.PROCESSING if found & {State.DELETING, State.EMPTY} else State.READY
