"""What a process with simulated clusters tells the benchmark that runs it."""

import json
import sys
from typing import Any


def write_line(line: dict[str, Any]) -> None:
    """Write one line to the output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
