"""The rules by which a day is judged: pure functions of what was observed."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lifecycle_manager.skr.watcher import CANARY

RECOVERY_SECONDS = 60.0
"""In a fault changes may be late, and for so long after it."""
MAX_P99_SECONDS = 2.0
MAX_EXPLAINED_SECONDS = 60.0
MAX_GROWTH = 0.02
GROWING = frozenset({"mb", "files", "tasks"})
OF_SOME = frozenset({"joins", "leaves", "hostile_cluster", "back_up"})
"""What concerns none but the clusters that are touched."""
ON_REQUEST = frozenset({"delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Change:
    """A user's change: where, what, and when it was made and in force, in seconds of the wall clock."""

    cluster: str
    what: str
    edited: float
    in_force: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.in_force - self.edited


@dataclass(frozen=True, slots=True)
class Span:
    """Something that happened in the day, with its begin and end, and the alerts that should fire."""

    name: str
    begin: float
    end: float
    is_fault: bool = False
    alerts: tuple[str, ...] = ()

    def meets(self, change: Change) -> bool:
        """Tell whether a change was under way in it, or shortly after a fault."""
        return change.in_force >= self.begin and change.edited <= self.end + RECOVERY_SECONDS * self.is_fault


@dataclass(frozen=True, slots=True)
class Active:
    """A time in which an alert was active, with its labels. `fired`: for longer than its `for`."""

    alert: str
    labels: str
    begin: float
    end: float
    fired: bool

    def fires_in(self, speed: float, wait: float) -> bool:
        """Tell whether it fires in a day that is not compressed, where it would be active for longer."""
        return self.fired or (self.end - self.begin) * speed >= wait

    def meets(self, span: Span) -> bool:
        """Tell whether it was active in something that happened, or shortly after."""
        return self.begin <= span.end + RECOVERY_SECONDS and self.end >= span.begin


@dataclass(frozen=True, slots=True)
class Delays:
    """How long changes took."""

    count: int
    p50: float
    p99: float
    worst: float


def delays_of(seconds: Sequence[float]) -> Delays:
    """Return the quantiles of some times."""
    if len(seconds) < 2:
        only = seconds[0] if seconds else 0.0
        return Delays(len(seconds), only, only, only)
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return Delays(len(seconds), cuts[49], cuts[98], max(seconds))


def by_hour(changes: Iterable[Change], hour_of: Callable[[float], float]) -> dict[int, Delays]:
    """Return the delays of each hour of the day."""
    hours: defaultdict[int, list[float]] = defaultdict(list)
    for change in changes:
        hours[int(hour_of(change.edited))].append(change.seconds)
    return {hour: delays_of(seconds) for hour, seconds in sorted(hours.items())}


def by_span(changes: Sequence[Change], spans: Iterable[Span]) -> dict[str, Delays]:
    """Return the delays by what else went on."""
    found = {span.name: [each.seconds for each in changes if span.meets(each)] for span in spans}
    return {name: delays_of(seconds) for name, seconds in found.items() if seconds}


def undisturbed(changes: Iterable[Change], spans: Sequence[Span]) -> list[Change]:
    """Return the changes that no fault met."""
    faults = [span for span in spans if span.is_fault]
    return [change for change in changes if not any(fault.meets(change) for fault in faults)]


def deletions_without_request(
    writes: Iterable[Mapping[str, Any]], removals: Mapping[str, Sequence[float]], leaving: Iterable[str]
) -> list[Mapping[str, Any]]:
    """Return the deletions of modules' objects in clusters that are not leaving and in which nobody removed anything.

    `removals` are the times at which users removed a module, by cluster.
    """
    gone = frozenset(leaving)
    return [
        write
        for write in writes
        if write["verb"] in ON_REQUEST
        and write["kind"] == "configmaps"
        and write["cluster"] not in gone
        and not any(at <= write["at"] for at in removals.get(write["cluster"], ()))
    ]


def writes_without_cause(
    writes: Iterable[Mapping[str, Any]], touched: Mapping[str, Sequence[float]], spans: Sequence[Span], within: float
) -> Counter[str]:
    """Return the writes, by verb and kind, in clusters that nobody touched for some seconds, while nothing happened.

    `touched` are the times of users' changes by cluster. A canary that is no dry run needs no cause.
    """
    found: Counter[str] = Counter()
    of_all = [span for span in spans if span.name not in OF_SOME]
    for write in writes:
        at, is_canary = write["at"], write["name"] == CANARY.name
        happened = any(span.begin <= at <= span.end + within for span in of_all)
        is_edited = any(0 <= at - each <= within for each in touched.get(write["cluster"], ()))
        if not (happened or is_canary or is_edited):
            found[f"{write['verb']} {write['kind']}"] += 1
    return found


def missing_alerts(
    active: Sequence[Active], spans: Iterable[Span], waits: Mapping[str, float], speed: float
) -> list[str]:
    """Return the alerts that should have fired in what happened, and would not have in a day of full length."""
    return [
        f"{alert} in {span.name}"
        for span in spans
        for alert in span.alerts
        if not any(each.alert == alert and each.meets(span) and each.fires_in(speed, waits[alert]) for each in active)
    ]


def unexpected_alerts(active: Iterable[Active], spans: Sequence[Span]) -> list[Active]:
    """Return what fired while nothing happened for which it should.

    What was pending would not always fire in a day of full length: the ranges in its expression are not compressed.
    """
    return [
        each
        for each in active
        if each.fired and not any(each.alert in span.alerts and each.meets(span) for span in spans)
    ]


def growth(
    samples: Iterable[Mapping[str, Any]], hour_of: Callable[[float], float], hours: tuple[float, float]
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Return the medians of what a process used in some hours of each day, of those that ran on two days or more."""
    begin, end = hours
    found: defaultdict[str, defaultdict[str, defaultdict[int, list[float]]]]
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for sample in samples:
        day, hour = divmod(hour_of(sample["at"]), 24)
        if begin <= hour < end:
            for what in GROWING & sample.keys():
                found[sample["process"]][what][int(day)].append(sample[what])
    medians = {
        process: {
            what: tuple(statistics.median(days[day]) for day in sorted(days))
            for what, days in values.items()
            if len(days) > 1
        }
        for process, values in found.items()
    }
    return {process: values for process, values in medians.items() if values}


def grown(growth: Mapping[str, Mapping[str, Sequence[float]]], program: str) -> dict[str, float]:
    """Return by how much of its use the processes of a program grew together from the last day but one to the last.

    Replicas share the clusters by Leases, so a day may end with other shares than the one before.
    """
    totals: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for process, values in growth.items():
        if process.startswith(program):
            for what, days in values.items():
                totals[what] = [total + used for total, used in zip(totals[what], days[-2:], strict=True)]
    return {what: after / before - 1 for what, (before, after) in totals.items()}
