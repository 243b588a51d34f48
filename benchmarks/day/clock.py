"""The clock of a day or of an hour: what happens when, and users' changes."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from benchmarks.day.judging import Span
from benchmarks.day.population import Population
from benchmarks.day.script import MISTAKES, Entry, edits_a_second

SETTLE_SECONDS = 120.0
Action = Callable[..., Awaitable[dict[str, Any]]]


class Clock:
    """Lets happen what a script says, while users make changes.

    It begins at an hour of the day, and `speed` hours pass in one. Without a `mistake` users make none.
    """

    def __init__(
        self,
        stage: Population,
        *,
        begin: float,
        hours: float,
        speed: float,
        script: Iterable[Entry],
        actions: Mapping[str, Action],
        mistake: Action | None = None,
    ) -> None:
        self.stage = stage
        self.begin = begin
        self.end = begin + hours
        self.speed = speed
        self.script = script
        self.actions = actions
        self.mistake = mistake
        self.began = time.time()
        self.happened: list[dict[str, Any]] = []
        self.spans: list[Span] = []

    def hour_of(self, at: float) -> float:
        """Return the hour of the day at a time of the wall clock."""
        return self.begin + (at - self.began) * self.speed / 3600

    async def run(self) -> None:
        """Run until all of the hours have passed and everything has happened."""
        self.began = time.time()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._edit())
            for entry in self.script:
                await asyncio.sleep((entry.hour - self.hour_of(time.time())) * 3600 / self.speed)
                tasks.create_task(self._happen(entry))

    async def _happen(self, entry: Entry) -> None:
        begin = time.time()
        print(f"{self.hour_of(begin):5.2f} {entry.does} {entry.given}", file=sys.__stderr__, flush=True)
        outcome: dict[str, Any]
        try:
            async with asyncio.timeout(600):
                outcome = await self.actions[entry.does](self.stage, **entry.given)
        except Exception as error:  # noqa: BLE001 - the day goes on, and the report says so
            outcome = {"failed": repr(error)[:500]}
        span = Span(entry.does, begin, time.time(), entry.is_fault, entry.alerts)
        print(f"{self.hour_of(span.end):5.2f} {entry.does}: {outcome}", file=sys.__stderr__, flush=True)
        self.spans.append(span)
        self.happened.append({"hour": entry.hour, "does": entry.does, "seconds": span.end - begin, **outcome})

    async def _edit(self) -> None:
        """Have users make changes by the curve of the day; some make mistakes."""
        chance = self.stage.chance
        async with asyncio.TaskGroup() as tasks:
            while (hour := self.hour_of(time.time())) < self.end:
                rate = edits_a_second(hour, len(self.stage.joined))
                await asyncio.sleep(min(chance.expovariate(rate), 30.0))
                if self.mistake is not None and chance.random() < MISTAKES:
                    tasks.create_task(self._err(hour, self.mistake))
                else:
                    await self.stage.fleet.do("edit")

    async def _err(self, hour: float, mistake: Action) -> None:
        begin = time.time()
        outcome = await mistake(self.stage)
        self.happened.append({"hour": round(hour, 2), "does": "mistake", "seconds": time.time() - begin, **outcome})

    async def wait_for_pending(self, within: float = SETTLE_SECONDS) -> list[dict[str, Any]]:
        """Wait until all changes are in force, at most for some seconds; return those that are not."""
        deadline = time.monotonic() + within
        while True:
            pending = (await self.stage.fleet.do("pending"))["pending"]
            if not pending or time.monotonic() > deadline:
                return list(pending)
            await asyncio.sleep(1)
