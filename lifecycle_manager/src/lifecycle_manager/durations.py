"""Durations as Kubernetes people write them: `100ms`, `30s`, `5m`, `1h30m` (the format of Go's time.Duration)."""

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
    """Return the duration that a text means. Raises ValueError, naming the text, where it means none."""
    if isinstance(text, timedelta):
        return text
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; write it like 100ms, 30s, 5m or 1h30m")
    return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
