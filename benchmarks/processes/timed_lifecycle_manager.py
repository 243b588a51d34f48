"""`klm` with the turns of its event loop timed: those that used much CPU time are appended to a file, a JSON line each.

It is CPU time of the loop's thread, so that it does not matter who else wants the core. Run by
`python -m benchmarks.processes.timed_lifecycle_manager FILE ARGUMENTS OF klm`.
"""

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from lifecycle_manager.cli import main as klm

TICK_SECONDS = 0.002
REPORTED_SECONDS = 0.005


class _Turns:
    """Measures from tick to tick, which is a tick and a turn of the loop."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._loop = asyncio.get_running_loop()
        self._used = time.thread_time()

    def tick(self) -> None:
        used = time.thread_time()
        if (turn := used - self._used - TICK_SECONDS) > REPORTED_SECONDS:
            self._file.write(json.dumps({"at": time.monotonic(), "turn": turn}) + "\n")
        self._used = time.thread_time()
        self._loop.call_later(TICK_SECONDS, self.tick)


def main() -> None:
    """Run klm with the event loop that production uses, and a timer on it."""
    file, run = Path(sys.argv.pop(1)), uvloop.run

    async def timed(service: Coroutine[Any, Any, Any]) -> Any:
        _Turns(file).tick()
        return await service

    uvloop.run = lambda service, **options: run(timed(service), **options)
    klm()


if __name__ == "__main__":
    main()
