"""Two Watchers behind one Service, each with a process, an epoch and a way to the control plane of its own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kube_runtime import NotFound
from kyma_demo import processes
from kyma_demo.cast import TLS_SECRET
from kyma_demo.stage import infrastructure
from kyma_demo.story import INFRASTRUCTURES, Story
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from lifecycle_manager.resources import MODULE_CONFIGS
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.programs import altered
from tests.integration.lifecycle_manager.watching import is_well, lines_of
from tests.waiting import eventually

WATCHER = "skr-watcher"
FIRST, SECOND = "skr-watcher-first", "skr-watcher-second"
NAMESPACE = names.SKR_NAMESPACE
AT_ONCE = 12


@dataclass(frozen=True, eq=False)
class Replicas:
    """Two Watchers behind the Service, and what users do meanwhile."""

    story: Story

    async def kill(self, name: str) -> None:
        """End a replica at once."""
        await self.story.cast.kill(name)

    async def start(self, name: str) -> None:
        """Start a replica in the place of one that died, as its Deployment does."""
        await self.story.cast.restart(name)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return what a replica has logged."""
        return lines_of(self.story.stage.logs / f"{name}.log")

    def starts(self, name: str) -> int:
        """Return how often a replica has begun to listen."""
        return sum(line["msg"] == "watching" for line in self.lines(name))

    def admitted(self, name: str, operation: str = "CREATE") -> set[str]:
        """Return the names of the objects that a replica was asked about."""
        return {
            line["object_name"]
            for line in self.lines(name)
            if line["msg"] == "change admitted" and line["operation"] == operation
        }

    async def users_create_until_asked(self, prefix: str, *asked: str) -> set[str]:
        """Create objects until each of some replicas was asked about one; return their names.

        How an API server spreads its questions is its own business: it prefers the connections that it has.
        """
        created: set[str] = set()

        async def have_been() -> bool:
            created.update(await self.users_create(f"{prefix}-{len(created)}"))
            return all(self.admitted(name) & created for name in asked)

        await eventually(have_been, within=120, what=f"the API server asks {' and '.join(asked)}")
        return created

    async def users_create(self, prefix: str) -> set[str]:
        """Create objects all at once, as so many users; return their names."""
        created = {f"{prefix}-{number}" for number in range(AT_ONCE)}
        async with asyncio.TaskGroup() as tasks:
            for name in created:
                tasks.create_task(self._create(name))
        return created

    async def users_delete(self, created: set[str]) -> None:
        """Delete objects, and wait until the control plane has heard of it."""
        async with asyncio.TaskGroup() as tasks:
            for name in created:
                tasks.create_task(self._delete(name))
        await eventually(lambda: self._is_told_of(created, there=False))

    async def control_plane_has(self, created: set[str]) -> None:
        """Wait until the control plane has heard of objects."""
        await eventually(lambda: self._is_told_of(created, there=True))

    async def _is_told_of(self, created: set[str], *, there: bool) -> bool:
        configs = (await self.story.stage.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)).items
        known = {config.spec.resource_ref.name for config in configs if config.spec.resource_ref is not None}
        return created <= known if there else not created & known

    async def _create(self, name: str) -> None:
        document = infrastructure(name, {}, {})
        await self.story.stage.skr.create(INFRASTRUCTURES, document, NAMESPACE, field_manager="user")

    async def _delete(self, name: str) -> None:
        try:
            await self.story.stage.skr.delete(INFRASTRUCTURES, name, NAMESPACE)
        except NotFound:
            return


@asynccontextmanager
async def two_watchers(story: Story, *event_ports: int) -> AsyncGenerator[Replicas, None]:
    """Have two Watchers in the place of the one for a while, each of which tells its changes to its own port."""
    stage, cast = story.stage, story.cast
    assert stage.skr_routes is not None
    single = cast._programs[WATCHER]
    await cast.stop(WATCHER)
    replicas = Replicas(story)
    before = {name: replicas.starts(name) for name in (FIRST, SECOND)}
    mount, ports = stage.directory / TLS_SECRET, (free_port(), free_port())
    for name, port, event_port in zip((FIRST, SECOND), ports, event_ports, strict=True):
        await cast._start(altered(processes.skr_watcher(mount, port, event_port), name=name))
    others = (("127.0.0.1", ports[1]),)
    add_route(stage.skr_routes, Route(NAMESPACE, "skr-webhook", 443, "127.0.0.1", ports[0], others))
    try:
        await eventually(lambda: all(replicas.starts(name) > before[name] for name in before))
        await eventually(lambda: is_well(stage))
        yield replicas
    finally:
        for name in (FIRST, SECOND):
            await cast.stop(name)
        port = int(single.environment["WEBHOOK_PORT"])
        add_route(stage.skr_routes, Route(NAMESPACE, "skr-webhook", 443, "127.0.0.1", port))
        await cast._start(single)
    await eventually(lambda: is_well(stage))
