"""The script of the day: at which hour what happens, and how much users change."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

PEAK_EDITS = 20.0
"""Changes of users in a second of the wall clock, of 5,000 clusters in the busiest hour."""
MISTAKES = 0.005
CURVE = (1, 1, 1, 1, 1, 2, 5, 20, 60, 100, 100, 90, 60, 80, 95, 95, 80, 50, 25, 12, 8, 5, 3, 2)
"""The share of the peak in each hour, in percent."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line: the hour, the action, and what it is given. In a fault changes may be late.

    `alerts` should fire while it lasts. `once`: on the first day only, so that the processes of the second are those of
    the first one's end.
    """

    hour: float
    does: str
    given: dict[str, Any] = field(default_factory=dict)
    is_fault: bool = False
    once: bool = False
    alerts: tuple[str, ...] = ()


SCRIPT = (
    Entry(hour=1.0, does="hostile_cluster", given={"seconds": 3.0}),
    Entry(hour=5.0, does="change_catalog"),
    Entry(hour=7.0, does="joins", given={"share": 0.04, "minutes": 60}),
    Entry(hour=8.0, does="release", given={"module": 0, "version": "{day}.1.0"}),
    Entry(hour=9.5, does="leaves", given={"share": 0.04, "minutes": 60}),
    Entry(hour=9.75, does="back_up"),
    Entry(hour=10.75, does="restore_etcd", is_fault=True),
    Entry(
        hour=11.0,
        does="release_bad",
        given={"module": 1, "version": "{day}.2.0", "minutes": 30},
        alerts=("LifecycleManagerRolloutHalted", "LifecycleManagerKymasInError"),
    ),
    Entry(hour=12.5, does="upgrade_mandatory", given={"version": "{day}.1.0"}),
    Entry(
        hour=13.5,
        does="region_unreachable",
        given={"minutes": 40},
        is_fault=True,
        alerts=("LifecycleManagerKymasInError",),
    ),
    Entry(hour=15.0, does="rotate_ca"),
    Entry(hour=16.0, does="restart_api_server", is_fault=True),
    Entry(hour=17.0, does="evict_replica", is_fault=True, once=True),
    Entry(hour=18.0, does="upgrade_lifecycle_manager", is_fault=True, once=True),
    Entry(hour=19.0, does="release", given={"module": 2, "version": "{day}.3.0"}),
    Entry(hour=20.5, does="maintenance_window", given={"module": 3, "version": "{day}.4.0", "minutes": 30}),
)

BUSY_HOUR = 10.0
"""The hour of the day in which users change most; what follows happens in it, in a control plane of either version."""
HOUR = (
    Entry(hour=10.05, does="joins", given={"share": 0.05, "minutes": 8}),
    Entry(hour=10.2, does="leaves", given={"share": 0.05, "minutes": 8}),
    Entry(hour=10.35, does="release"),
    Entry(hour=10.45, does="upgrade_mandatory"),
    Entry(hour=10.55, does="region_unreachable", given={"minutes": 6}, is_fault=True),
    Entry(hour=10.75, does="restart_program", is_fault=True),
    Entry(hour=10.9, does="restart_api_server", is_fault=True),
)


def edits_a_second(hour: float, clusters: int) -> float:
    """Return how many changes users make in a second at an hour, between the hours in proportion."""
    whole = int(hour)
    now, later = CURVE[whole % 24], CURVE[(whole + 1) % 24]
    percent = now + (later - now) * (hour - whole)
    return PEAK_EDITS * clusters / 5000 * percent / 100


def entries_between(begin: float, end: float) -> Iterator[Entry]:
    """Yield what happens in some hours, in their order; a second day repeats the first with other versions."""
    for day in range(int(end // 24) + 1):
        for entry in SCRIPT:
            if begin <= entry.hour + 24 * day < end and not (day and entry.once):
                given = {
                    key: value.format(day=day + 1) if isinstance(value, str) else value
                    for key, value in entry.given.items()
                }
                yield replace(entry, hour=entry.hour + 24 * day, given=given)
