"""When a cluster may be interrupted: the maintenance policy, a file of rules that an operator of the fleet writes.

Each rule matches Kymas by regular expressions on their labels and has weekly windows; a default window applies to the
rest. A window has days of its own time zone, and one whose end is not after its begin ends on the next day. A window
that would end too soon is not used.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from lifecycle_manager_api import names

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAYS_AHEAD = 9


CONVENTIONAL = Path("/etc/maintenance-policy/policy.json")
"""Where upstream expects the maintenance policy, without an option for it."""


class PolicyUnreadable(Exception):
    """The maintenance policy can't be read or is invalid."""


class Span(NamedTuple):
    begin: datetime
    end: datetime

    def holds(self, now: datetime) -> bool:
        return self.begin <= now < self.end


ALWAYS = Span(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
NOT_KNOWN = Span(ALWAYS.end, ALWAYS.end)
"""The window of each Kyma while the policy can't be read."""


class Window(msgspec.Struct, frozen=True):
    """Some days of each week, from a time to a time, both with their zone."""

    days: tuple[Day, ...]
    begin: str
    end: str

    def next(self, now: datetime, min_length: timedelta) -> Span | None:
        """Return the current occurrence, or else the next, that leaves at least so much time.

        None for a window without days, and for one that is never open for so long.
        """
        begin, end = _time_of(self.begin), _time_of(self.end)
        first_day = now.astimezone(begin.tzinfo).date() - timedelta(days=1)
        for ahead in range(_DAYS_AHEAD):
            day = first_day + timedelta(days=ahead)
            if _DAYS[day.weekday()] not in self.days:
                continue
            opens, closes = datetime.combine(day, begin), datetime.combine(day, end)
            while closes <= opens:  # more than once where the two zones differ
                closes += timedelta(days=1)
            if closes - max(now, opens) >= min_length:
                return Span(opens, closes)
        return None


class Match(
    msgspec.Struct, frozen=True, rename={"global_account_id": "globalAccountID", "platform_region": "platformRegion"}
):
    """Regular expressions on the labels of a Kyma; one that is found is enough."""

    global_account_id: str = ""
    plan: str = ""
    region: str = ""
    platform_region: str = ""

    def found_in(self, labels: Mapping[str, str]) -> bool:
        return any(
            expression and re.search(expression, labels.get(label, "")) for expression, label in self.expressions()
        )

    def expressions(self) -> Sequence[tuple[str, str]]:
        """Return each expression with the label that it is tried against."""
        return (
            (self.global_account_id, names.GLOBAL_ACCOUNT_ID),
            (self.plan, names.BROKER_PLAN_NAME),
            (self.region, names.REGION),
            (self.platform_region, names.PLATFORM_REGION),
        )


class MaintenanceRule(msgspec.Struct, frozen=True):
    """Windows for the Kymas that match."""

    match: Match
    windows: tuple[Window, ...]


class MaintenancePolicy(msgspec.Struct, frozen=True):
    """The rules in their order, and the window of Kymas for which no rule has one."""

    default: Window
    rules: tuple[MaintenanceRule, ...] = ()

    def next_window(self, labels: Mapping[str, str], *, now: datetime, min_length: timedelta) -> Span | None:
        """Return the occurrence in which a Kyma may be interrupted: the current one, or else the next."""
        for rule in self.rules:
            if not rule.match.found_in(labels):
                continue
            spans = [span for window in rule.windows if (span := window.next(now, min_length)) is not None]
            if spans:
                return min(spans)
        return self.default.next(now, min_length)


def read_policy(path: Path) -> MaintenancePolicy:
    """Read a maintenance policy. Raises PolicyUnreadable with what is wrong."""
    try:
        policy = msgspec.json.decode(path.read_bytes(), type=MaintenancePolicy)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PolicyUnreadable(f"maintenance policy {path}: {error}") from None
    for window in (policy.default, *(window for rule in policy.rules for window in rule.windows)):
        for text in (window.begin, window.end):
            _time_of(text)
    for expression, _ in (each for rule in policy.rules for each in rule.match.expressions()):
        try:
            re.compile(expression)
        except re.error as error:
            raise PolicyUnreadable(f"maintenance policy: invalid regular expression {expression!r}: {error}") from None
    return policy


def _time_of(text: str) -> time:
    try:
        parsed = time.fromisoformat(text)
    except ValueError:
        parsed = time()
    if parsed.tzinfo is None:
        raise PolicyUnreadable(f"maintenance policy: invalid time {text!r}: expected one like 22:00:00+00:00")
    return parsed


def find_policy(given: Path | None, conventional: Path = CONVENTIONAL) -> Path | None:
    """Return the file that an option names, else the one at the conventional place, if there is one."""
    return given or (conventional if conventional.is_file() else None)
