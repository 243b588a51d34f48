"""What open pages receive: the cache is compared once a second for all of them, and never while none is open."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kyma_fleet_page.fleet import Fleet
from lifecycle_manager.contract.fleet import ClusterSummary
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleRollout

SECONDS = 1.0
MAX_CHANGES = 500
"""Above this number of changed squares in a second a page loads all of them anew."""


@dataclass(frozen=True, slots=True)
class Update:
    """What changed since the last one. With `reload` a page loads all squares anew."""

    fleet: Fleet
    changed: tuple[ClusterSummary, ...] = ()
    reload: bool = False


@dataclass(eq=False)
class Live:
    """Watches the Kymas, the rollouts and the releases for all open pages."""

    kymas: Callable[[], Iterable[Kyma]]
    rollouts: Callable[[], Iterable[ModuleRollout]]
    releases: Callable[[], Iterable[ModuleReleaseMeta]] = tuple
    seconds: float = SECONDS
    fleet: Fleet = field(default_factory=Fleet)
    version: int = field(default_factory=lambda: secrets.randbelow(10**8))
    _pages: set[asyncio.Queue[Update]] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    def current(self) -> Fleet:
        """Return the fleet of this moment. `version` is another one whenever a page would look different.

        It starts anywhere, so that pages of a former process are loaded anew.
        """
        fleet = self.fleet.updated(self.kymas(), self.rollouts(), self.releases())
        self.version += fleet.differs_from(self.fleet)
        self.fleet = fleet
        return fleet

    @asynccontextmanager
    async def updates(self, shown: int) -> AsyncIterator[asyncio.Queue[Update]]:
        """Give a queue of updates to a page that shows a version; if it does not read, it is given the newest only."""
        queue: asyncio.Queue[Update] = asyncio.Queue(maxsize=1)
        if shown != self.version:
            queue.put_nowait(Update(self.fleet, reload=True))
        self._pages.add(queue)
        if self._task is None:
            self._task = asyncio.create_task(self._watch(self.fleet))
        try:
            yield queue
        finally:
            self._pages.discard(queue)
            if not self._pages and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _watch(self, shown: Fleet) -> None:
        while True:
            await asyncio.sleep(self.seconds)
            fleet = self.current()
            if fleet.differs_from(shown):
                changed = tuple(fleet.changed_since(shown))
                is_reloaded = fleet.has_others_than(shown) or len(changed) > MAX_CHANGES
                self._publish(Update(fleet, changed, reload=is_reloaded))
            shown = fleet

    def _publish(self, update: Update) -> None:
        for queue in self._pages:
            if queue.full():  # what it missed is in the whole fleet
                queue.get_nowait()
                queue.put_nowait(Update(update.fleet, reload=True))
            else:
                queue.put_nowait(update)
