"""What came of the demo: its steps and figures, as data for machines and as text for people."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from kyma_demo.timeline import Station


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the story: how long it took in milliseconds, and whether the clusters show that it happened."""

    name: str
    ms: float
    verified: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 99th percentile of some durations, in milliseconds."""

    median: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> "Spread":
        """Return the spread of at least one duration."""
        ordered = sorted(milliseconds)
        rank = max(0, math.ceil(0.99 * len(ordered)) - 1)
        return cls(statistics.median(ordered), ordered[rank])


@dataclass(slots=True)
class Report:
    """All that a run of the demo has to say."""

    steps: list[Step] = field(default_factory=list)
    timeline: tuple[Station, ...] = ()
    change: Spread | None = None
    floor: Spread | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Tell whether every step was seen in the clusters."""
        return bool(self.steps) and all(step.verified for step in self.steps)

    def as_document(self) -> dict[str, Any]:
        """Return the report for `--json`."""
        return {
            "steps": [_step(step) for step in self.steps],
            "timeline": [
                {"program": station.program, "what": station.what, "ms": round(station.ms, 1)}
                for station in self.timeline
            ],
            "change_ms": _rounded(self.change),
            "floor_ms": _rounded(self.floor),
            "versions": dict(self.versions),
        }


class Narrator(Protocol):
    """Tells a run of the demo while it goes on."""

    def begins(self, name: str) -> None:
        """Say that a step has begun."""

    def ended(self, step: Step) -> None:
        """Say how a step ended."""

    def shows(self, timeline: Sequence[Station], total_ms: float) -> None:
        """Show how one change travelled."""


class Silence:
    """Tells nothing: for output that a machine reads."""

    def begins(self, name: str) -> None:
        """Keep quiet."""

    def ended(self, step: Step) -> None:
        """Keep quiet."""

    def shows(self, timeline: Sequence[Station], total_ms: float) -> None:
        """Keep quiet."""


def _step(step: Step) -> dict[str, Any]:
    shown = {"name": step.name, "ms": round(step.ms, 1), "verified": step.verified}
    return shown if step.verified else shown | {"detail": step.detail}


def _rounded(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else {key: round(value, 1) for key, value in asdict(spread).items()}
