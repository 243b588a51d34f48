"""The Watcher with its event loop under observation: how long each turn takes, and what takes it.

A callback that enqueues itself measures each turn in CPU time, so neither other processes nor pauses count. The first
turn is left out: it starts the servers. The callback keeps the CPU busy, so latencies beside it mean nothing. Argument:
the file to which the result is written at the end.
"""

import asyncio
import gc
import logging
import ssl
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from http_guard.memory import return_large_blocks
from skr_watcher import delivery, main, recorder, server
from skr_watcher.logs import configure_logs
from skr_watcher.settings import SkrWatcherSettings

WORK_MS = 0.02
LONG_MS = 1.0
MAX_KEPT = 40
# More reviews at once were waiting while other processes had the CPU. Their turn is long on any server.
MAX_REVIEWS = 4
REVIEW = "review decoded"


class Turn(msgspec.Struct):
    """One turn of the loop, and the milliseconds of its parts, which may contain each other."""

    milliseconds: float
    at_seconds: float
    parts: dict[str, float]


class Turns(msgspec.Struct):
    """The turns with work, except those with many reviews: number, quantiles, the longest. The total of each part."""

    count: int
    p99_ms: float
    max_ms: float
    longest: list[Turn]
    total_ms: dict[str, float]


class Observer:
    """Measures turns and the parts within them."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._reviews = 0
        self._total: defaultdict[str, float] = defaultdict(float)
        self._turns: list[float] = []
        self._longest: list[Turn] = []
        self._began = time.monotonic()
        self._collecting = 0.0
        gc.callbacks.append(self._on_gc)

    def run_in(self, loop: Any) -> None:
        """Measure the turns of a loop from now on."""
        last = time.thread_time()

        def turn() -> None:
            nonlocal last
            now = time.thread_time()
            self._record((now - last) * 1000)
            last = time.thread_time()
            loop.call_soon(turn)

        def first_turn() -> None:
            nonlocal last
            self._parts.clear()
            last = time.thread_time()
            loop.call_soon(turn)

        loop.call_soon(first_turn)

    def times(self, owner: Any, name: str, part: str) -> None:
        """Measure a function or a method."""
        call: Callable[..., Any] = getattr(owner, name)

        @wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            before = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self._parts[part] += (time.thread_time() - before) * 1000
                self._reviews += part == REVIEW

        setattr(owner, name, timed)

    def result(self) -> Turns:
        """Return what was measured."""
        ordered = sorted(self._turns) or [0.0]
        longest = sorted(self._longest, key=lambda each: -each.milliseconds)[:MAX_KEPT]
        total = {name: round(spent, 1) for name, spent in sorted(self._total.items(), key=lambda each: -each[1])}
        return Turns(len(self._turns), round(ordered[int(len(ordered) * 0.99)], 3), ordered[-1], longest, total)

    def _record(self, milliseconds: float) -> None:
        works = milliseconds > WORK_MS
        for name, spent in {**self._parts, "all": milliseconds * works}.items():
            self._total[name] += spent
        counts, self._reviews = self._reviews <= MAX_REVIEWS, 0
        if works and counts:
            self._turns.append(milliseconds)
        if milliseconds > LONG_MS and counts:
            parts = {name: round(spent, 2) for name, spent in self._parts.items()}
            self._longest.append(Turn(round(milliseconds, 2), round(time.monotonic() - self._began, 2), parts))
        self._parts.clear()

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._parts[f"gc {info['generation']}"] += (time.thread_time() - self._collecting) * 1000


def observe() -> None:
    """Run the Watcher, and write the turns of its loop."""
    observer = Observer()
    for owner, name, part in (
        (ssl.SSLObject, "do_handshake", "TLS handshake"),
        (ssl.SSLObject, "read", "TLS read"),
        (ssl.SSLObject, "write", "TLS write"),
        (ssl, "create_default_context", "TLS context"),
        (delivery.Identity, "headers", "signing"),
        (delivery.Identity, "check", "files"),
        (delivery.Delivery, "_body", "JSON of an event"),
        (recorder.Recorder, "record", "record"),
        (server, "decode_review", REVIEW),
        (server, "change_in", "change"),
        (logging.StreamHandler, "emit", "log"),
    ):
        observer.times(owner, name, part)

    async def run() -> None:
        observer.run_in(asyncio.get_running_loop())
        await main.run(SkrWatcherSettings.from_environment())

    configure_logs("INFO")
    return_large_blocks(main.LARGE_BYTES)
    uvloop.run(run())
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(observer.result()))


if __name__ == "__main__":
    observe()
