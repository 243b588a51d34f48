"""`klm` with the turns of its event loop timed: those that used much CPU time are appended to a file, a JSON line each.

For each change of a Module CR there is a line with the CPU time that the thread spent, on whatever, from the event
until the ModuleConfig was written, and with the time by the clock less that in which the thread waited for a core: so
it does not matter who else wants the core. A mechanism of docs/fairness.md can be left out.

Run by `python -m benchmarks.processes.timed_lifecycle_manager FILE MECHANISM ARGUMENTS OF klm`; MECHANISM may be empty.
"""

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TextIO

import uvloop

from benchmarks.core_waits import waited_for_a_core
from kube_runtime.controller.shares import Shares
from lifecycle_manager.cli import main as klm
from lifecycle_manager.events.endpoint import VerifiedEvent
from lifecycle_manager.events.publishing import EventPublisher
from lifecycle_manager.module_config.rules import ApplyModuleConfig
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
from lifecycle_manager.module_config.writes import ModuleConfigWrites

TICK_SECONDS = 0.002
REPORTED_SECONDS = 0.005


MECHANISMS: dict[str, tuple[object, str, object]] = {
    "shares": (Shares, "enter", lambda *_: True),
}
"""What is replaced in this process to leave a mechanism out."""


class _Events:
    """Measures from the event of a Kyma to the write of a ModuleConfig of it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._began: dict[str, tuple[float, float]] = {}

    def observe(self) -> None:
        """Begin to measure all events of this process."""
        take, write = EventPublisher.take, ModuleConfigWrites.carry_out

        def timed_take(publisher: EventPublisher, kyma_name: str, verified: VerifiedEvent) -> None:
            self._began[kyma_name] = _used()
            take(publisher, kyma_name, verified)

        async def timed_write(writes: ModuleConfigWrites, seen: ModuleConfigSnapshot, steps: Any) -> None:
            writing = tuple(steps)
            sources = {step.source for step in writing if isinstance(step, ApplyModuleConfig)}
            began = self._began.pop(seen.kyma, None) if sources else None
            if began is not None and sources & seen.traces.keys():  # else the write was not that of the event
                cpu, clock = (now - before for now, before in zip(_used(), began, strict=True))
                line = {"at": time.monotonic(), "kyma": seen.kyma, "event": cpu, "clock": clock}
                self._file.write(json.dumps(line) + "\n")
            await write(writes, seen, writing)

        setattr(EventPublisher, "take", timed_take)  # noqa: B010 - mypy takes no assignment to a method
        setattr(ModuleConfigWrites, "carry_out", timed_write)  # noqa: B010


def _used() -> tuple[float, float]:
    """Return the CPU time of this thread, and the clock without the time in which it waited for a core."""
    return time.thread_time(), time.monotonic() - waited_for_a_core()


class _Turns:
    """Measures from tick to tick, which is a tick and a turn of the loop."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
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
    path, run = Path(sys.argv.pop(1)), uvloop.run
    if mechanism := sys.argv.pop(1):
        owner, name, replacement = MECHANISMS[mechanism]
        setattr(owner, name, replacement)
    with path.open("a", buffering=1) as file:

        async def timed(service: Coroutine[Any, Any, Any]) -> Any:
            _Events(file).observe()
            _Turns(file).tick()
            return await service

        uvloop.run = lambda service, **options: run(timed(service), **options)
        klm()


if __name__ == "__main__":
    main()
