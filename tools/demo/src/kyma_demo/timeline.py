"""One change in the logs of the three programs, found by its trace id."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

STATIONS = (
    ("skr-watcher", "change admitted", "allows the write at once"),
    ("skr-watcher", "event delivered", "has delivered its signed event"),
    ("lifecycle-manager", "event taken", "has verified and enqueued it"),
    ("lifecycle-manager", "module config written", "has written ModuleConfig"),
    ("module-manager", "sync resource written", "has written SyncResource"),
    ("lifecycle-manager", "sync resource applied", "has applied the objects in the SKR"),
)


@dataclass(frozen=True, slots=True)
class Station:
    """One station of a change: the program, its action, and the milliseconds since the user's write."""

    program: str
    what: str
    ms: float


def follow(traceparent: str, logs: Path, start: datetime) -> tuple[Station, ...]:
    """Return the stations of a trace in the logs, ordered by time; none without a trace."""
    if not traceparent:
        return ()
    found: list[Station] = []
    for program, message, meaning in STATIONS:
        moment = _moment(logs / f"{program}.log", message, traceparent)
        if moment is not None:
            found.append(Station(program, meaning, (moment - start).total_seconds() * 1000))
    return tuple(sorted(found, key=lambda station: station.ms))


def _moment(log: Path, message: str, traceparent: str) -> datetime | None:
    trace_id = traceparent.split("-")[1] if "-" in traceparent else traceparent
    for line in log.read_text(errors="replace").splitlines():
        if message in line and trace_id in line and (record := _record(line)).get("msg") == message:
            return datetime.fromisoformat(record["time"])
    return None


def _record(line: str) -> dict[str, Any]:
    try:
        record = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}  # a line that is not JSON
    return record if isinstance(record, dict) else {}
