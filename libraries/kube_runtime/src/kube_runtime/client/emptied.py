"""Maps that a document empties, and of which the API server makes a null that the schema of a custom resource forbids.

With the last field that was applied in a map before, an apply removes the map itself, though the document has it. So
the fields go by a patch, and the apply finds the map as empty as it wants it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kube_runtime.exceptions import Invalid
from kube_runtime.resource import JsonObject

_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_NULL = 'must be of type object: "null"'
_NO_FIELD = "<nil>"
"""What a server names when it says that it has not checked further rules."""


def steps_of(field: str) -> tuple[str, ...]:
    """Return the steps to a field that a server names. The item of a list, and an unusual key, is one in brackets."""
    return tuple(_STEP.findall(field))


def nulls_in(refusal: Invalid) -> tuple[tuple[str, ...], ...]:
    """Return the paths of maps of which a server has made a null; none where something else is wrong too."""
    causes = [each for each in refusal.causes if each.field != _NO_FIELD]
    if not all(each.message.endswith(_NULL) for each in causes):
        return ()
    return tuple(tuple(step.strip("[]") for step in steps_of(each.field)) for each in causes)


def emptying(live: JsonObject, document: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> JsonObject | None:
    """Return a merge patch that empties the maps at these paths; None where a document does not have one empty.

    The server has no null where others own fields of a map: all of them go. A map in an item of a list stays.
    """
    patch: JsonObject = {}
    for steps in paths:
        present = _at(live, steps)
        if _at(document, steps) != {} or not isinstance(present, Mapping):
            return None
        section = patch
        for step in steps:
            section = section.setdefault(step, {})
        section.update(dict.fromkeys(present))
    return {**patch, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}} if patch else None


def _at(value: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
