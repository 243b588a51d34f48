"""What open pages receive: server-sent events with the parts that have changed, rendered."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from jinja2 import Environment

from kyma_fleet_page.access import MayList
from kyma_fleet_page.fleet import Filter, Fleet, Grouping, by_cause
from kyma_fleet_page.live import Live, Update
from kyma_fleet_page.rollouts import last_completed, under_way
from lifecycle_manager.contract.fleet import ClusterSummary
from lifecycle_manager.contract.resources import MODULE_ROLLOUTS
from lifecycle_manager_api import names

MAX_TEXT = 200
RECENT = timedelta(hours=1)


@dataclass(eq=False)
class Streams:
    """Renders the parts of pages that are open; what all of them show alike is rendered once."""

    live: Live
    templates: Environment
    heartbeat_seconds: float
    _last_update: tuple[Update | None, str] = (None, "")

    async def fleet(self, version: int, query: Mapping[str, str], may_list: MayList) -> AsyncGenerator[str, None]:
        """Send what changes in the fleet, and at first what a page of another version lacks. Raises KubeError."""
        wanted, is_whole = filter_of(query), query.get("only") == "reload"
        async with self.live.updates(version) as queue:
            yield ": open\n\n"
            while True:
                try:
                    async with asyncio.timeout(self.heartbeat_seconds):
                        update = await queue.get()
                except TimeoutError:
                    yield heartbeat()
                    continue
                yield heartbeat() + self._part("counts", fleet=update.fleet, wanted=wanted)
                yield self._part("causes", fleet=update.fleet)
                yield self._part("recent", recent=recent_changes(update.fleet))
                yield await self._rollouts(update.fleet, may_list)
                if update.reload or is_whole or (update.changed and wanted != Filter()):
                    yield event("reload", "")
                elif update.changed:
                    yield self._changed_squares(update)

    async def revisions(self, revision: Callable[[], str], shown: str) -> AsyncGenerator[str, None]:
        """Send that a page has to be loaded anew, whenever what it shows has another revision."""
        seen = shown
        yield ": open\n\n"
        while True:
            await asyncio.sleep(min(self.live.seconds, self.heartbeat_seconds))
            now = revision()
            yield heartbeat() + (event("reload", "") if now != seen else "")
            seen = now

    async def _rollouts(self, fleet: Fleet, may_list: MayList) -> str:
        """Return the rollouts, as far as the user may list them. Raises KubeError."""
        rollouts = fleet.rollouts if await may_list(MODULE_ROLLOUTS, names.KCP_NAMESPACE) else ()
        completed = last_completed(rollouts)
        text = self._part("rollouts", under_way=under_way(rollouts), completed=completed)
        return text + self._part("completed", completed=completed)

    def _changed_squares(self, update: Update) -> str:
        """Return the changed squares and the worst clusters, rendered once for all pages without a filter."""
        known, text = self._last_update
        if known is not update:
            text = self._part("squares", template="changed", changed=update.changed)
            text += self._part("worst", squares=update.fleet.worst_first, total=len(update.fleet.clusters))
            self._last_update = update, text
        return text

    def _part(self, name: str, *, template: str = "", **context: Any) -> str:
        found = self.templates.get_template(f"{template or name}.html")
        return event(name, found.render(**context, now=datetime.now(UTC)))


def filter_of(query: Mapping[str, str]) -> Filter:
    """Return the filter in the address of a page; what is not valid restricts nothing."""
    given = {
        key: query.get(key, "")[:MAX_TEXT]
        for key in ("state", "region", "module", "version", "channel", "text", "cause")
    }
    group = query.get("group", "")
    return Filter(**given, group=group if group in get_args(Grouping) else "")  # type: ignore[arg-type]


def recent_changes(fleet: Fleet) -> Sequence[Sequence[ClusterSummary]]:
    """Return the clusters that became ready, or ceased to be, in the last hour, by cause; the last change first."""
    return by_cause(fleet.changes_since(datetime.now(UTC) - RECENT))


def heartbeat() -> str:
    """Return the event that says when the page was last known to be current."""
    return event("heartbeat", f"{datetime.now(UTC):%H:%M:%S} UTC")


def event(name: str, html: str) -> str:
    """Return a server-sent event."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines()) or "data:\n"
    return f"event: {name}\n{lines}\n"
