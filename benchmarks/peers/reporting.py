"""How a program reports to the benchmark that started it what it reached."""

import sys
from typing import Any

import msgspec

__all__ = ["report"]


def report(values: dict[str, Any]) -> None:
    """Report something, as one JSON line."""
    sys.stdout.write(msgspec.json.encode(values).decode() + "\n")
    sys.stdout.flush()
