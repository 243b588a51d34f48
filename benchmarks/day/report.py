"""Writes what a day found: `report.md` for people and `report.json`."""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.day import judging
from benchmarks.day.judging import Active, Change, Span

CAUSE_SECONDS = 150.0
"""For so long after a cause something may be written: longer than the interval of canaries."""
SAME_HOURS = (21.5, 24.0)
CHANGES = ("changes.jsonl", "changes-real.jsonl")
LATER = ("explained after seconds", "alerts", "growth")
Document = dict[str, Any]


def write(folder: Path, found: Document, spans: Sequence[Span], hour_of: Callable[[float], float]) -> int:
    """Judge, write both files, and return 1 if a bar was missed."""
    changes = [Change(**line) for name in CHANGES for line in _lines(folder / name)]
    began = found["day"]["began"]  # what the start wrote is not judged
    writes = [line for line in _lines(folder / "writes.jsonl") if line["at"] >= began]
    hostile = {each["cluster"] for each in found["happened"] if each["does"] == "hostile_cluster" and "cluster" in each}
    touched: defaultdict[str, list[float]] = defaultdict(list, found["touched"])
    removals: defaultdict[str, list[float]] = defaultdict(list)
    for change in changes:
        touched[change.cluster] += change.edited, change.in_force
        if change.what == "remove module":
            removals[change.cluster].append(change.edited)
    undisturbed = judging.undisturbed(changes, spans)
    calm = judging.delays_of([each.seconds for each in undisturbed])
    calm_hours = judging.by_hour(undisturbed, hour_of)
    slow = [hour for hour, each in calm_hours.items() if each.p99 >= judging.MAX_P99_SECONDS]
    lost = [each for each in found["pending"] if not each["cut_off"]]
    growth = judging.growth(found.pop("samples"), hour_of, SAME_HOURS)
    speed, waits, active = float(found["options"]["speed"]), found.pop("alerts wait"), found.pop("alerts")
    missing = judging.missing_alerts(active, spans, waits, speed)
    unexpected = judging.unexpected_alerts(active, spans)
    deleted = judging.deletions_without_request(writes, removals, found["left"])
    judged: Document = {
        "changes": asdict(judging.delays_of([each.seconds for each in changes])),
        "changes without a fault": asdict(calm),
        "by hour": {hour: asdict(each) for hour, each in judging.by_hour(changes, hour_of).items()},
        "by hour, without a fault": {hour: asdict(each) for hour, each in calm_hours.items()},
        "by what else went on": {name: asdict(each) for name, each in judging.by_span(changes, spans).items()},
        "lost": lost,
        "deleted without a request": deleted,
        "writes to clusters without a cause": _without_cause(writes, touched, spans, hostile),
        "writes to the control plane without a cause": _without_cause(found.pop("kcp writes"), touched, spans, hostile),
        "growth": growth,
    }
    explained = [each["explained after seconds"] for each in found["happened"] if "explained after seconds" in each]
    bars = {
        "no change is lost": not lost,
        "nothing is deleted that nobody removed": not deleted,
        "p99 of a change without a fault below 2 s in every hour": not slow,
        "every cluster has what its Kyma says": not found["wrong"],
        "everything happened": not any("failed" in each for each in found["happened"]),
        "each wrong state is explained within a minute": all(
            each <= judging.MAX_EXPLAINED_SECONDS for each in explained
        ),
        "alerts fired that should have, and no others": not missing and not unexpected,
        "no growth of Lifecycle Manager beyond 2 % at the same hour of the last two days": all(
            share <= judging.MAX_GROWTH for share in judging.grown(growth, "lifecycle-manager").values()
        ),
    }
    judged["alerts"] = {
        "missing": missing,
        "unexpected": [_shown(each, hour_of) for each in unexpected],
        "active": [_shown(each, hour_of) for each in active],
    }
    judged["explained after seconds"] = asdict(judging.delays_of(explained))
    document = {**found, "judged": judged, "bars": bars}
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))
    text = "\n".join(_text(document, judged, bars))
    (folder / "report.md").write_text(text)
    print(text)
    print(f"the report is in {folder}", file=sys.__stderr__)
    return 0 if all(bars.values()) else 1


def _text(found: Document, judged: Document, bars: dict[str, bool]) -> Iterator[str]:
    yield f"# A day of {found['options']['clusters']} clusters, {found['options']['speed']} times as fast\n"
    yield f"All clusters were ready after {found['start']['seconds']} s.\n"
    yield from (f"- {'met' if met else '**missed**'}: {name}" for name, met in bars.items())
    yield from _table(
        "Changes of users, in seconds", {"all": judged["changes"], "no fault": judged["changes without a fault"]}
    )
    yield from _table("By hour", judged["by hour"])
    yield from _table("By hour, without a fault", judged["by hour, without a fault"])
    yield from _table("By what else went on", judged["by what else went on"])
    yield from _table("Processes", found["processes"])
    yield from _table("Cores by hour", found["cores by hour"])
    yield from _table("What operators used", found["operators"]["times"])
    yield "\n## What happened\n"
    yield from (
        f"- {json.dumps(each, default=str)}" for each in sorted(found["happened"], key=lambda each: each["hour"])
    )
    titles = ("lost", "deleted without a request", *(title for title in judged if title.startswith("writes")), *LATER)
    for title in titles:
        yield f"\n## {title.capitalize()}\n"
        yield f"{json.dumps(judged[title], default=str)[:3000]}"
    for title in ("wrong", "not ready", "real", "watchers", "operators", "series", "requests", "log", "etcd MB"):
        yield f"\n## {title.capitalize()}\n"
        yield f"{json.dumps(found[title], default=str, indent=1)[:4000]}"


def _without_cause(
    writes: Sequence[Document], touched: Mapping[str, Sequence[float]], spans: Sequence[Span], hostile: Collection[str]
) -> dict[str, int]:
    others = [each for each in writes if each["cluster"] not in hostile]
    return dict(judging.writes_without_cause(others, touched, spans, CAUSE_SECONDS).most_common())


def _shown(active: Active, hour_of: Callable[[float], float]) -> str:
    fired = "fired" if active.fired else "pending"
    seconds = active.end - active.begin
    return f"{hour_of(active.begin):.2f} {active.alert} {active.labels}: {fired}, {seconds:.0f} s"


def _table(title: str, rows: Document) -> Iterator[str]:
    yield f"\n## {title}\n"
    columns = list(next(iter(rows.values()), {}))
    yield "| | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in rows.items():
        yield f"| {name} | " + " | ".join(f"{row[column]:.5g}" for column in columns) + " |"


def _lines(file: Path) -> Iterator[Document]:
    if file.exists():
        yield from map(json.loads, file.read_text().splitlines())
