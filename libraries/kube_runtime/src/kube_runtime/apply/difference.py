"""What an apply would change, as the API server itself sees it, without changing it."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.resource import JsonObject
from kube_runtime.yaml_output import dump_yaml

MAX_COMPARISONS = 1_000_000
"""Of lines with lines: difflib takes time by the square, and a cluster says what its objects are."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which `kubectl apply` keeps a whole document, of a Secret with its values."""
_OF_THE_SERVER = frozenset({"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"})


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """What would happen to one object. `text` is a unified diff of its YAML; values of Secrets are not shown.

    `error` says why it can't be compared, or is deleted and created anew.
    """

    entry: InventoryEntry
    index: int | None
    action: Literal["create", "change", "recreate", "none", "prune", "fail"]
    text: str = field(default="", repr=False)
    error: str | None = None


def difference_between(
    entry: InventoryEntry, index: int, before: JsonObject | None, after: JsonObject
) -> ObjectDifference:
    """Compare two states of an object; `before` is None for one that is not there yet."""
    is_secret = (entry.group, entry.kind) == ("", "Secret")
    now, then = _lines(before, after, "now", is_secret=is_secret), _lines(after, before, "then", is_secret=is_secret)
    compared = _compared_whole if len(now) * len(then) > MAX_COMPARISONS else difflib.unified_diff
    text = "".join(compared(now, then, f"{entry} now", f"{entry} then"))
    return ObjectDifference(entry, index, "create" if before is None else "change" if text else "none", text)


def _compared_whole(now: list[str], then: list[str], fromfile: str, tofile: str) -> Iterator[str]:
    """Yield a diff in which everything between the first and the last line that differ is replaced."""
    if now == then:
        return
    shorter = min(len(now), len(then))
    first = next((number for number in range(shorter) if now[number] != then[number]), shorter)
    rest = range(1, shorter - first + 1)
    last = next((number for number in rest if now[-number] != then[-number]), shorter - first + 1) - 1
    removed, added = now[first : len(now) - last], then[first : len(then) - last]
    yield f"--- {fromfile}\n"
    yield f"+++ {tofile}\n"
    yield f"@@ -{first + 1},{len(removed)} +{first + 1},{len(added)} @@\n"
    yield from (f"-{each}" for each in removed)
    yield from (f"+{each}" for each in added)


def _lines(document: JsonObject | None, other: JsonObject | None, when: str, *, is_secret: bool) -> list[str]:
    if document is None:
        return []
    metadata = {key: value for key, value in document["metadata"].items() if key not in _OF_THE_SERVER}
    shown = {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}
    if is_secret:
        values = {key: shown[key] for key in ("data", "stringData") if key in shown}
        shown |= {key: _masked(held, (other or {}).get(key), when) for key, held in values.items()}
        annotations = _mapping(metadata.get("annotations"))
        if LAST_APPLIED in annotations:
            others = _mapping(_mapping(_mapping(other).get("metadata")).get("annotations"))
            masked = _masked({LAST_APPLIED: annotations[LAST_APPLIED]}, others, when)
            metadata["annotations"] = {**annotations, **_mapping(masked)}
    return dump_yaml(shown).splitlines(keepends=True)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _masked(values: object, others: object, when: str) -> dict[str, str] | str:
    """Show which keys there are and which of them differ, and nothing of the values."""
    if not isinstance(values, Mapping):
        return "(hidden)"
    known = _mapping(others)
    return {
        name: "(hidden)" if known.get(name) == value else f"(hidden, the value {when})"
        for name, value in values.items()
    }
