"""The last writes: who wrote what, as the objects record it. Pure functions.

An object records the last write of each manager alone, to the second. Writes of one second are in the order in which
one causes the next.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kyma_fleet.explanation.facts import Occurrence
from kyma_fleet.times import time_in
from lifecycle_manager_api import names

Document = Mapping[str, Any]
PAUSE_SECONDS = 60.0
TRACE = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
CAUSAL_ORDER = (
    ("Kyma", "content"),
    ("ModuleConfig", "content"),
    ("Manifest", "content"),
    ("SyncResource", "content"),
    ("SyncResource", "status"),
    ("ModuleConfig", "status"),
    ("Manifest", "status"),
    ("Kyma", "status"),
)
MAX_ENTRIES = 50
"""How many entries of one object count; API servers keep fewer."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that was done, by whom, and to which object. `place`: among those of one second."""

    at: datetime
    by: str
    what: str
    place: int = -1
    about: str = ""

    @property
    def rank(self) -> tuple[datetime, int, datetime, str, str]:
        """The sort key."""
        return self.at.replace(microsecond=0), self.place, self.at, self.by, self.what


def moments(documents: Iterable[Document], events: Iterable[Occurrence]) -> list[Moment]:
    """Return what was done, the oldest first."""
    found = [*(each for document in documents for each in _of_object(document)), *map(_of_event, events)]
    return sorted(set(found), key=lambda each: each.rank)


def last_change(found: list[Moment], pause_seconds: float = PAUSE_SECONDS) -> list[Moment]:
    """Return the moments after the last pause of such a length."""
    for index in range(len(found) - 1, 0, -1):
        if (found[index].at - found[index - 1].at).total_seconds() > pause_seconds:
            return found[index:]
    return found


def newest_trace(documents: Iterable[Document]) -> tuple[str, tuple[str, ...]]:
    """Return the trace of the change that was observed last, and the objects that it reached; empty where none is."""
    found: list[tuple[datetime, str]] = []
    reached: defaultdict[str, list[str]] = defaultdict(list)
    for document in documents:
        annotations = (document.get("metadata") or {}).get("annotations") or {}
        known = TRACE.fullmatch(str(annotations.get(names.TRACEPARENT, "")))
        if known is not None:
            observed_at = time_in(annotations.get(names.OBSERVED_AT))
            found.append((observed_at or datetime.min.replace(tzinfo=UTC), known[1]))
            reached[known[1]].append(_name(document))
    newest = max(found)[1] if found else ""
    return newest, tuple(reached[newest])


def _of_object(document: Document) -> Iterator[Moment]:
    metadata, kind, name = document.get("metadata") or {}, str(document.get("kind", "")), _name(document)
    annotations = metadata.get("annotations") or {}
    observed = time_in(annotations.get(names.OBSERVED_AT))
    if observed is not None and kind == "ModuleConfig":
        yield Moment(observed, "skr-watcher", f"has seen the user's write that became {name}", about=name)
    deleted = time_in(metadata.get("deletionTimestamp"))
    if deleted is not None:
        yield Moment(deleted, "somebody", f"requested the deletion of {name}", about=name)
    for entry in list(metadata.get("managedFields") or ())[:MAX_ENTRIES]:
        at = time_in(entry.get("time"))
        if at is not None:
            part = entry.get("subresource") or "content"
            place = CAUSAL_ORDER.index((kind, part)) if (kind, part) in CAUSAL_ORDER else len(CAUSAL_ORDER)
            yield Moment(at, str(entry.get("manager", "")), f"wrote the {part} of {name}", place, name)


def _of_event(event: Occurrence) -> Moment:
    return Moment(event.at, "Event", f"{event.reason}, {event.about}: {event.note}", len(CAUSAL_ORDER), event.about)


def _name(document: Document) -> str:
    return f"{document.get('kind', '')} {(document.get('metadata') or {}).get('name', '')}"
