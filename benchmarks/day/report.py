"""Writes what a day found: `report.md` for people and `report.json`."""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.day import judging
from benchmarks.day.judging import Change, Span

CAUSE_SECONDS = 330.0
"""The longest interval at which something is reconciled without an event, and a little more."""
Document = dict[str, Any]


def write(folder: Path, found: Document, spans: Sequence[Span], hour_of: Callable[[float], float]) -> int:
    """Judge, write both files, and return 1 if a bar was missed."""
    changes = [Change(**line) for line in _lines(folder / "changes.jsonl")]
    began = found["day"]["began"]  # what the start wrote is not judged
    writes = [line for line in _lines(folder / "writes.jsonl") if line["at"] >= began]
    touched: defaultdict[str, list[float]] = defaultdict(list)
    removals: defaultdict[str, list[float]] = defaultdict(list)
    for change in changes:
        touched[change.cluster].append(change.edited)
        if change.what == "remove module":
            removals[change.cluster].append(change.edited)
    calm = judging.delays_of([each.seconds for each in judging.undisturbed(changes, spans)])
    lost = [each for each in found["pending"] if not each["cut_off"]]
    deleted = judging.deletions_without_request(writes, removals, found["left"])
    judged: Document = {
        "changes": asdict(judging.delays_of([each.seconds for each in changes])),
        "changes without a fault": asdict(calm),
        "by hour": {hour: asdict(each) for hour, each in judging.by_hour(changes, hour_of).items()},
        "by what else went on": {name: asdict(each) for name, each in judging.by_span(changes, spans).items()},
        "lost": lost,
        "deleted without a request": deleted,
        "writes without a cause": judging.writes_without_cause(writes, touched, spans, CAUSE_SECONDS),
    }
    bars = {
        "no change is lost": not lost,
        "nothing is deleted that nobody removed": not deleted,
        "p99 of a change without a fault below 2 s": calm.p99 < judging.MAX_P99_SECONDS,
        "every cluster has what its Kyma says": not found["wrong"],
        "everything happened": not any("failed" in each for each in found["happened"]),
    }
    document = {**found, "judged": judged, "bars": bars}
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))
    text = "\n".join(_text(document, judged, bars))
    (folder / "report.md").write_text(text)
    print(text)
    print(f"the report is in {folder}", file=sys.stderr)
    return 0 if all(bars.values()) else 1


def _text(found: Document, judged: Document, bars: dict[str, bool]) -> Iterator[str]:
    yield f"# A day of {found['options']['clusters']} clusters, {found['options']['speed']} times as fast\n"
    yield f"All clusters were ready after {found['start']['seconds']} s.\n"
    yield from (f"- {'met' if met else '**missed**'}: {name}" for name, met in bars.items())
    yield from _table(
        "Changes of users, in seconds", {"all": judged["changes"], "no fault": judged["changes without a fault"]}
    )
    yield from _table("By hour", judged["by hour"])
    yield from _table("By what else went on", judged["by what else went on"])
    yield from _table("Processes", found["processes"])
    yield "\n## What happened\n"
    yield from (
        f"- {json.dumps(each, default=str)}" for each in sorted(found["happened"], key=lambda each: each["hour"])
    )
    for title in ("lost", "deleted without a request", "writes without a cause"):
        yield f"\n## {title.capitalize()}\n"
        yield f"{json.dumps(judged[title], default=str)[:3000]}"
    for title in ("wrong", "not ready", "watchers", "requests", "log", "etcd MB"):
        yield f"\n## {title.capitalize()}\n"
        yield f"{json.dumps(found[title], default=str, indent=1)[:4000]}"


def _table(title: str, rows: Document) -> Iterator[str]:
    yield f"\n## {title}\n"
    columns = list(next(iter(rows.values()), {}))
    yield "| | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in rows.items():
        yield f"| {name} | " + " | ".join(f"{row[column]:.5g}" for column in columns) + " |"


def _lines(file: Path) -> Iterator[Document]:
    with file.open() as lines:
        yield from map(json.loads, lines)
