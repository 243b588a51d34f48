"""Owners of fields in a version that a CustomResourceDefinition no longer has.

An API server converts an object to each version that its managedFields name. Where the definition has dropped one, it
refuses every apply from then on, whoever owns those fields.
"""

import re
from collections.abc import Mapping
from typing import Any

from kube_runtime.exceptions import ApiError
from kube_runtime.resource import JsonObject

_REMOVED = re.compile(r"request to convert CR to an invalid group/version: (?P<version>\S+)")


def removed_version(refusal: ApiError) -> str:
    """Return the version for which a server refuses an apply as it can't convert an object to it; empty for none."""
    found = _REMOVED.search(refusal.message)
    return found["version"] if found is not None else ""


def renaming(live: JsonObject, removed: str, present: str) -> JsonObject | None:
    """Return a merge patch by which owners in a removed version are those in a present one; None where there are none.

    They stay the owners of the same paths. One that the present version does not have matches no field. A server keeps
    one entry for an owner and version, so what an owner of both had in the removed one is nobody's.
    """
    metadata = live["metadata"]
    entries = [each for each in metadata.get("managedFields") or () if isinstance(each, Mapping)]
    kept = [each for each in entries if each.get("apiVersion") != removed]
    if len(kept) == len(entries):
        return None
    known = {_owner(each) for each in kept if each.get("apiVersion") == present}
    former = (each for each in entries if each.get("apiVersion") == removed and _owner(each) not in known)
    fields = [*kept, *({**each, "apiVersion": present} for each in former)]
    return {"metadata": {"managedFields": fields, "resourceVersion": metadata["resourceVersion"]}}


def _owner(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(key) for key in ("manager", "operation", "subresource"))
