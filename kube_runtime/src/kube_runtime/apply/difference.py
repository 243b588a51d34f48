"""What an apply would change, as the API server itself sees it, without changing it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.resource import JsonObject
from kube_runtime.yaml_output import dump_yaml

__all__ = ["ObjectDifference", "difference_between"]

_OF_THE_SERVER = frozenset({"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"})


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """What would happen to one object. `text` is a unified diff of its YAML; values of Secrets are not shown."""

    entry: InventoryEntry
    index: int | None
    action: Literal["create", "change", "none", "prune", "fail"]
    text: str = field(default="", repr=False)
    error: str | None = None


def difference_between(
    entry: InventoryEntry, index: int, before: JsonObject | None, after: JsonObject
) -> ObjectDifference:
    """Compare two states of an object; `before` is None for one that is not there yet."""
    lines = difflib.unified_diff(
        _lines(before, after, "now"), _lines(after, before, "then"), fromfile=f"{entry} now", tofile=f"{entry} then"
    )
    text = "".join(lines)
    return ObjectDifference(entry, index, "create" if before is None else "change" if text else "none", text)


def _lines(document: JsonObject | None, other: JsonObject | None, when: str) -> list[str]:
    if document is None:
        return []
    metadata = {key: value for key, value in document["metadata"].items() if key not in _OF_THE_SERVER}
    shown = {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}
    if document.get("kind") == "Secret":
        values = {key: shown[key] for key in ("data", "stringData") if key in shown}
        shown |= {key: _masked(held, (other or {}).get(key), when) for key, held in values.items()}
    return dump_yaml(shown).splitlines(keepends=True)


def _masked(values: object, others: object, when: str) -> dict[str, str] | str:
    """Show which keys there are and which of them differ, and nothing of the values."""
    if not isinstance(values, Mapping):
        return "(hidden)"
    known = others if isinstance(others, Mapping) else {}
    return {
        name: "(hidden)" if known.get(name) == value else f"(hidden, the value {when})"
        for name, value in values.items()
    }
