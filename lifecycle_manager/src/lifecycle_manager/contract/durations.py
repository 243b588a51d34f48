"""Durations as Kubernetes writes them."""

import re
from datetime import timedelta

MAX_DURATION = timedelta(days=365_000)
"""A time of now plus this is one that Python has."""
MAX_LENGTH = 64
PATTERN = r"^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$"

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}


def parse_duration(text: object) -> timedelta:
    """Return a duration of 1,000 years at most. Raises ValueError."""
    if isinstance(text, timedelta):
        return text
    if text == "0":  # the only one without a unit
        return timedelta()
    parts = _PART.findall(text) if isinstance(text, str) and len(text) <= MAX_LENGTH else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"invalid duration {str(text)[:MAX_LENGTH]!r}: expected one like 100ms, 30s, 5m or 1h30m")
    try:
        duration = sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        duration = timedelta.max
    if duration > MAX_DURATION:
        raise ValueError(f"invalid duration {text!r}: more than 1,000 years")
    return duration


def format_duration(duration: timedelta) -> str:
    """Return a duration as `parse_duration` reads it."""
    hours, rest = divmod(duration, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    seconds, rest = divmod(rest, timedelta(seconds=1))
    counts = ((hours, "h"), (minutes, "m"), (seconds, "s"), (rest // timedelta(milliseconds=1), "ms"))
    return "".join(f"{count}{unit}" for count, unit in counts if count) or "0s"
