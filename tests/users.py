"""Users who change Module CRs again and again, each change after the previous one of that Module CR is in force."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kyma_demo import names
from kyma_demo.environment import infrastructure
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from tests.waiting import eventually

USERS = 4
CHANGES = 5
WATCH_SECONDS = 20.0
_numbers = count(1_000)


@dataclass(eq=False)
class User:
    """Changes one Module CR. `longest` is the longest time until a change was in force, in seconds."""

    walkthrough: Walkthrough
    name: str
    within: float
    pause: float
    made: int = 0
    longest: float = 0.0
    slowest_write: float = 0.0

    async def run(self) -> None:
        """Change until cancelled. Raises NotSeen for a change that is not in force in time."""
        skr, namespace = self.walkthrough.environment.skr, names.SKR_NAMESPACE
        while True:
            capacity = f"{next(_numbers)}Gi"
            document = infrastructure(self.name, {"media": capacity}, {})
            started = time.perf_counter()
            await skr.apply(INFRASTRUCTURES, self.name, document, namespace, field_manager=names.USER)
            self.slowest_write = max(self.slowest_write, time.perf_counter() - started)

            def is_there(found: dict[str, Any] | None, capacity: str = capacity) -> bool:
                return found is not None and found["data"]["capacity"] == capacity

            seen = await self.walkthrough.object_watcher.wait_for(
                f"{self.name}-nfs-media", is_there, within=self.within
            )
            self.longest = max(self.longest, seen - started)
            self.made += 1
            await asyncio.sleep(self.pause)


@dataclass(frozen=True, eq=False)
class Users:
    """Users at work."""

    each: tuple[User, ...] = field(repr=False)
    _started: float = field(default_factory=time.monotonic, init=False)

    @property
    def made(self) -> int:
        return sum(user.made for user in self.each)

    @property
    def summary(self) -> str:
        seconds = time.monotonic() - self._started
        longest, write = max(user.longest for user in self.each), max(user.slowest_write for user in self.each)
        return f"{self.made} in {seconds:.0f} s, the slowest after {longest:.1f} s; slowest write {write:.1f} s"

    def slowest_since_last(self) -> tuple[float, float]:
        """Return how long the slowest change and the slowest write took that have ended since this was asked before."""
        found = max(user.longest for user in self.each), max(user.slowest_write for user in self.each)
        for user in self.each:
            user.longest = user.slowest_write = 0.0
        return found

    async def make(self, changes: int, *, within: float) -> None:
        """Wait until each user has made so many further changes."""
        goals = [user.made + changes for user in self.each]

        def made() -> bool:
            return all(user.made >= goal for user, goal in zip(self.each, goals, strict=True))

        await eventually(made, what=f"{changes} changes of each user", within=within)


@asynccontextmanager
async def changing(walkthrough: Walkthrough, *, within: float, users: int = USERS) -> AsyncGenerator[Users, None]:
    """Have users change Module CRs, and watch the results; see `at_work`."""
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(walkthrough.object_watcher.run())
        await walkthrough.object_watcher.ready(WATCH_SECONDS)
        async with at_work(walkthrough, within=within, users=users) as working:
            yield working
        watching.cancel()


@asynccontextmanager
async def at_work(
    walkthrough: Walkthrough, *, within: float, users: int = USERS, pause: float = 0.0
) -> AsyncGenerator[Users, None]:
    """Have users change Module CRs, some times before and after what happens meanwhile; `pause` seconds in between.

    Raises NotSeen for a change that is not in force within so many seconds.
    """
    working = Users(tuple(User(walkthrough, f"user-{number}", within, pause) for number in range(users)))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(user.run()) for user in working.each]
        await working.make(CHANGES, within=CHANGES * within)
        yield working
        await working.make(CHANGES, within=CHANGES * within)
        for task in running:
            task.cancel()
