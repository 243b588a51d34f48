"""Values of an object that do not fit the schema of its kind any more.

Where a definition gives a field another type, an API server reads no object that has a value of the former one, and
refuses every apply to it, also one that would replace the value. A patch is not read like that, but with one the server
forgets who owns which fields.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kube_runtime.exceptions import Invalid
from kube_runtime.resource import JsonObject

OF_LIVE_OBJECT = "failed to create typed live object"
"""How messages begin by which a server says that it can't read the object as it is."""
_FIELD = re.compile(r"(?<=\s)\.(\S+?): ")


def unfit_in(refusal: Invalid) -> tuple[tuple[str, ...], ...]:
    """Return the paths of values that do not fit their schema; none where one is in an item of a list."""
    if not refusal.message.startswith(OF_LIVE_OBJECT):
        return ()
    fields = _FIELD.findall(refusal.message)
    return () if any("[" in each for each in fields) else tuple(tuple(each.split(".")) for each in fields)


def replacing(live: JsonObject, document: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> JsonObject | None:
    """Return a merge patch that gives these fields the values of a document; None where it does not have them all."""
    patch: JsonObject = {}
    for path in paths:
        value: Any = document
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            return None
        section = patch
        for step in path[:-1]:
            section = section.setdefault(step, {})
        section[path[-1]] = value
    return {**patch, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}} if patch else None


def forgotten_owners(live: JsonObject, patched: JsonObject) -> JsonObject | None:
    """Return a merge patch that gives an object the owners that it had; None where it has owners."""
    known, left = (each["metadata"].get("managedFields") for each in (live, patched))
    if left or not known:
        return None
    return {"metadata": {"managedFields": known, "resourceVersion": patched["metadata"]["resourceVersion"]}}
