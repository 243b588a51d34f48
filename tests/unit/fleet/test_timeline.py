"""`klm trace`: the moments that objects and Events record."""

import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kyma_fleet.explanation.facts import Occurrence
from kyma_fleet.explanation.moments import Moment, last_change, moments, newest_trace
from kyma_fleet.screen import Screen
from kyma_fleet.timeline import Timeline, Write
from lifecycle_manager_api import names

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def config() -> dict[str, Any]:
    metadata = {
        "name": "c",
        "annotations": {names.OBSERVED_AT: "2026-11-22T12:00:00.250000Z"},
        "managedFields": [
            {"manager": "lifecycle-manager", "operation": "Apply", "time": "2026-11-22T12:00:01Z"},
            {"manager": "module-manager", "subresource": "status", "time": "2026-11-22T12:00:02Z"},
            {"manager": "hostile\x1b[2J", "time": "yesterday"},
        ],
    }
    return {"kind": "ModuleConfig", "metadata": metadata}


def test_moments_are_those_that_objects_and_events_record() -> None:
    event = Occurrence(NOW + timedelta(seconds=3), 1, "Normal", "ObjectsReady", "ready", "SyncResource c")
    found = moments([config(), {"kind": "Kyma"}], [event])
    assert [(each.by, each.what) for each in found] == [
        ("skr-watcher", "has seen the user's write that became ModuleConfig c"),
        ("lifecycle-manager", "wrote the content of ModuleConfig c"),
        ("module-manager", "wrote the status of ModuleConfig c"),
        ("Event", "ObjectsReady, SyncResource c: ready"),
    ]


def test_a_cause_precedes_its_effect_within_a_second() -> None:
    def written(kind: str, manager: str, *parts: str) -> dict[str, Any]:
        entries = [{"manager": manager, "subresource": part, "time": "2026-11-22T12:00:00Z"} for part in parts]
        return {"kind": kind, "metadata": {"name": "c", "managedFields": entries}}

    observed = {"kind": "ModuleConfig", "metadata": {"name": "c", "annotations": config()["metadata"]["annotations"]}}
    documents = [
        written("Kyma", "lifecycle-manager", "status"),
        written("ModuleConfig", "lifecycle-manager", ""),
        written("ModuleConfig", "a-module-manager", "status"),
        written("SyncResource", "a-module-manager", ""),
        written("SyncResource", "lifecycle-manager", "status"),
        observed,
    ]
    event = Occurrence(NOW, 1, "Normal", "ObjectsReady", "ready", "SyncResource c")
    assert [each.what for each in moments(documents, [event])] == [
        "has seen the user's write that became ModuleConfig c",
        "wrote the content of ModuleConfig c",
        "wrote the content of SyncResource c",
        "wrote the status of SyncResource c",
        "wrote the status of ModuleConfig c",
        "wrote the status of Kyma c",
        "ObjectsReady, SyncResource c: ready",
    ]


def test_the_last_change_begins_after_a_pause() -> None:
    found = [Moment(NOW + timedelta(seconds=each), "a", str(each)) for each in (0, 5, 500, 501, 530)]
    assert [each.what for each in last_change(found, 60)] == ["500", "501", "530"]
    assert last_change(found[:1], 60) == found[:1]
    assert last_change(found[:2], 60) == found[:2]


def test_timeline_is_drawn_in_lines_that_fit() -> None:
    stream = io.StringIO()
    found = (Write(NOW, "me", "x" * 200), Write(NOW + timedelta(seconds=3), "you\x1b[2J", "y"))
    Timeline(kyma="demo", writes=found).print_table(Screen(width=80, stream=stream))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "last writes, from 2026-11-22 12:00:00 UTC"
    assert lines[-1] == "   3.0 s ─────────● you y"
    stream.truncate(0)
    found = (Write(NOW + timedelta(seconds=0.25), "me", "x"), Write(NOW, "you", "y"))
    Timeline(kyma="demo", writes=found).print_table(Screen(stream=stream))
    assert "-0." not in stream.getvalue()
    assert all(len(line) <= 80 for line in lines)


def test_trace_of_the_change_that_was_observed_last_is_found() -> None:
    def written(trace: str, observed_at: str) -> Mapping[str, Any]:
        annotations = {names.TRACEPARENT: trace, names.OBSERVED_AT: observed_at}
        return {"kind": "ModuleConfig", "metadata": {"name": trace[3:4], "annotations": annotations}}

    def trace(digit: str) -> str:
        return f"00-{digit * 32}-{'1' * 16}-00"

    documents = [
        written(trace("a"), "2026-11-22T12:00:00Z"),
        written(trace("b"), "2026-11-22T12:00:01.5Z"),
        written(trace("d"), "2026-11-22T12:00:01Z"),
        written(trace("e"), "yesterday"),
        written("\x1b[2J" + trace("c"), "2026-11-22T12:00:02Z"),
        {"metadata": {}},
        {},
    ]
    assert newest_trace(documents) == ("b" * 32, ("ModuleConfig b",))
    assert newest_trace([]) == ("", ())
