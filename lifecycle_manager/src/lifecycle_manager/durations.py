"""Durations as Kubernetes writes them: `100ms`, `30s`, `5m`, `1h30m` (the format of Go's time.Duration)."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def parse_duration(text: object) -> timedelta:
    """Return the duration that a text stands for. Raises ValueError for an invalid one."""
    if isinstance(text, timedelta):
        return text
    if text == "0":  # the only one without a unit
        return timedelta()
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"invalid duration {text!r}: expected one like 100ms, 30s, 5m or 1h30m")
    return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
