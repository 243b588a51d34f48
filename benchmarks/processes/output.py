"""How a process with simulated clusters talks with the benchmark that runs it: by lines of JSON."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any


def write_line(line: dict[str, Any]) -> None:
    """Write one line to the output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def obey(clusters: object) -> None:
    """Answer commands until the input ends: `{"do": "edit", ...}` calls the method `_edit` with what else it has."""
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command = json.loads(line)
        do: Callable[..., dict[str, Any]] = getattr(clusters, f"_{command.pop('do')}")
        write_line(do(**command))
