"""The state of a resource, and how the states of parts add up."""

from collections.abc import Iterable
from enum import StrEnum


class State(StrEnum):
    """What a resource says of itself."""

    READY = "Ready"
    PROCESSING = "Processing"
    ERROR = "Error"
    DELETING = "Deleting"
    WARNING = "Warning"
    UNMANAGED = "Unmanaged"
    EMPTY = ""


def aggregate(states: Iterable[State], deleting: bool = False) -> State:
    """Return what the states of parts add up to: Error, else Warning, else Processing, else Ready."""
    if deleting:
        return State.DELETING
    found = set(states)
    for state in (State.ERROR, State.WARNING, State.PROCESSING):
        if state in found:
            return state
    return State.PROCESSING if State.DELETING in found else State.READY
