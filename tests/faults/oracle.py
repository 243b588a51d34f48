"""The outcome of a run, compared with that of the undisturbed run."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_runtime.resource import JsonObject
from kube_simulation.store import StoredChange

__all__ = ["FaultFinding", "Outcome", "findings_of", "outcome_of"]

ObjectId = tuple[str, str, str, str]
"""Cluster, kind with its group, namespace and name."""

_EVENTS = frozenset({("", "events"), ("events.k8s.io", "events")})
_VOLATILE = frozenset({"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "time"})


@dataclass(frozen=True)
class FaultFinding:
    """One violation that a run showed."""

    fault: str
    what: str

    def __str__(self) -> str:
        return f"{self.fault}: {self.what}"


@dataclass
class Outcome:
    """What a run came to. `complaints` are what is wrong by itself, whatever other runs came to."""

    objects: dict[ObjectId, JsonObject] = field(default_factory=dict)
    created: Counter[ObjectId] = field(default_factory=Counter)
    deleted: Counter[ObjectId] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    places: Mapping[str, int] = field(default_factory=dict)


def outcome_of(
    cluster: str, changes: Iterable[StoredChange], objects: Iterable[JsonObject], ignored: frozenset[str]
) -> Outcome:
    """Return what became of one cluster. Events are left out: each has a name of its own, and one may be lost."""
    outcome = Outcome()
    for document in objects:
        metadata = document["metadata"]
        group = document["apiVersion"].rpartition("/")[0]
        if (group, document["kind"]) in {("", "Event"), ("events.k8s.io", "Event")}:
            continue
        identity = (cluster, f"{document['kind']}.{group}", metadata.get("namespace", ""), _name_of(metadata))
        while identity in outcome.objects:
            identity = (*identity[:3], f"{identity[3]} and")  # one more of the same prefix
        outcome.objects[identity] = comparable(document, ignored)
    for change in changes:
        group, plural = change.storage
        if change.storage in _EVENTS:
            continue
        name = change.after.name
        if b'"generateName":' in change.after.body:
            name = _name_of(change.after.document()["metadata"])
        identity = (cluster, f"{plural}.{group}", change.after.namespace, name)
        if change.before is None:
            outcome.created[identity] += 1
        if change.deleted:
            outcome.deleted[identity] += 1
    return outcome


def findings_of(fault: str, reference: Outcome, outcome: Outcome, *, may_be_fewer: bool) -> list[FaultFinding]:
    """Return how a run differs from the reference. `may_be_fewer`: a change that was hidden need not be handled."""
    complaints = list(outcome.complaints)
    for identity in sorted(reference.objects.keys() | outcome.objects.keys()):
        wanted, found = reference.objects.get(identity), outcome.objects.get(identity)
        if wanted != found:
            complaints.append(f"{_named(identity)} {_difference(wanted, found)}")
    for verb, wanted_counts, found_counts in (
        ("created", reference.created, outcome.created),
        ("deleted", reference.deleted, outcome.deleted),
    ):
        for identity in sorted(wanted_counts.keys() | found_counts.keys()):
            wanted_times, found_times = wanted_counts[identity], found_counts[identity]
            if found_times > wanted_times or (found_times < wanted_times and not may_be_fewer):
                complaints.append(f"{_named(identity)} was {verb} {found_times} times instead of {wanted_times}")
    return [FaultFinding(fault, each) for each in complaints]


def comparable(value: Any, ignored: frozenset[str]) -> Any:
    """Return a document without what is never the same twice; conditions in the order of their types."""
    if isinstance(value, list):
        items = [comparable(each, ignored) for each in value]
        return sorted(items, key=lambda item: item["type"]) if all(map(_is_condition, items)) else items
    if not isinstance(value, dict):
        return value
    left_out = _VOLATILE | ignored | ({"name"} if "generateName" in value else set())
    return {
        key: comparable(each, ignored)
        for key, each in value.items()
        if key not in left_out and not key.endswith(("Time", "Timestamp"))
    }


def _is_condition(item: Any) -> bool:
    return isinstance(item, dict) and {"type", "status", "reason"} <= item.keys()


def _name_of(metadata: Mapping[str, Any]) -> str:
    """Return the name of an object; what was generated of it is never the same twice."""
    prefix = metadata.get("generateName")
    return f"{prefix}*" if prefix else str(metadata["name"])


def _named(identity: ObjectId) -> str:
    cluster, kind, namespace, name = identity
    return f"{kind.rstrip('.')} {namespace}/{name} in {cluster}"


def _difference(wanted: JsonObject | None, found: JsonObject | None) -> str:
    if wanted is None:
        return "is there and should not be"
    if found is None:
        return "is missing"
    fields = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
    parts = [f"{key} is {found.get(key)!r} instead of {wanted.get(key)!r}" for key in fields]
    return "; ".join(parts)
