"""The report of the demo: steps and figures."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kyma_demo.timeline import Station


class NotVerified(Exception):
    """The result of a step was not found in the clusters."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step: its duration in milliseconds, and whether its result was verified in the clusters."""

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
class DemoReport:
    """The results of a run."""

    steps: list[DemoStep] = field(default_factory=list)
    timeline: tuple[Station, ...] = ()
    change: Spread | None = None
    status: Spread | None = None
    floor: Spread | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Whether every step was verified in the clusters."""
        return bool(self.steps) and all(step.verified for step in self.steps)

    def as_document(self) -> dict[str, Any]:
        """Return the report for `-o json`."""
        return {
            "steps": [step_document(step) for step in self.steps],
            "timeline": [
                {"program": station.program, "what": station.what, "ms": round(station.ms, 1)}
                for station in self.timeline
            ],
            "changeMs": _rounded(self.change),
            "statusMs": _rounded(self.status),
            "floorMs": _rounded(self.floor),
            "versions": dict(self.versions),
        }


def step_document(step: DemoStep) -> dict[str, Any]:
    """Return a step for `-o json`; why it was not verified is in `detail`."""
    shown = {"name": step.name, "ms": round(step.ms, 1), "verified": step.verified}
    return shown if step.verified else shown | {"detail": step.detail}


def _rounded(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else {key: round(value, 1) for key, value in asdict(spread).items()}
