"""Two Watchers behind one Service, each with its own process, epoch and connection to the control plane."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kube_runtime import NotFound, NotServed
from kyma_demo import processes
from kyma_demo.environment import infrastructure
from kyma_demo.programs import TLS_SECRET
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.event_path import is_watcher_ready, lines_of
from tests.integration.lifecycle_manager.programs import with_options
from tests.waiting import eventually

WATCHER = "skr-watcher"
FIRST, SECOND = "skr-watcher-first", "skr-watcher-second"
NAMESPACE = names.SKR_NAMESPACE
CONCURRENT = 12


@dataclass(frozen=True, eq=False)
class WatcherReplicas:
    """Two Watchers behind the Service, and writes of users."""

    walkthrough: Walkthrough

    async def kill(self, name: str) -> None:
        await self.walkthrough.programs.kill(name)

    async def start(self, name: str) -> None:
        """Start a replica again, as its Deployment does."""
        await self.walkthrough.programs.restart(name)

    def lines(self, name: str) -> list[dict[str, Any]]:
        return lines_of(self.walkthrough.environment.logs / f"{name}.log")

    def starts(self, name: str) -> int:
        return sum(line["msg"] == "watching" for line in self.lines(name))

    def admitted(self, name: str, operation: str = "CREATE") -> set[str]:
        return {
            line["object_name"]
            for line in self.lines(name)
            if line["msg"] == "change admitted" and line["operation"] == operation
        }

    async def create_until_admitted_by(self, prefix: str, *replicas: str) -> set[str]:
        """Create objects until each of the replicas has admitted one; return their names.

        The API server chooses the replica, and prefers existing connections.
        """
        created: set[str] = set()

        async def all_admitted() -> bool:
            created.update(await self.create(f"{prefix}-{len(created)}"))
            return all(self.admitted(name) & created for name in replicas)

        await eventually(all_admitted, within=120, what=f"the API server calls {' and '.join(replicas)}")
        return created

    async def create(self, prefix: str) -> set[str]:
        """Create objects concurrently; return their names."""
        created = {f"{prefix}-{number}" for number in range(CONCURRENT)}
        async with asyncio.TaskGroup() as tasks:
            for name in created:
                tasks.create_task(self._create(name))
        return created

    async def delete(self, created: set[str]) -> None:
        """Delete objects, and wait until the control plane has no ModuleConfigs of them."""
        async with asyncio.TaskGroup() as tasks:
            for name in created:
                tasks.create_task(self._delete(name))
        await eventually(lambda: self._is_known(created, there=False))

    async def wait_until_known(self, created: set[str]) -> None:
        """Wait until the control plane has ModuleConfigs of objects."""
        await eventually(lambda: self._is_known(created, there=True))

    async def _is_known(self, created: set[str], *, there: bool) -> bool:
        configs = (await self.walkthrough.environment.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)).items
        known = {config.spec.resource_ref.name for config in configs if config.spec.resource_ref is not None}
        return created <= known if there else not created & known

    async def _create(self, name: str) -> None:
        document = infrastructure(name, {}, {})
        await self.walkthrough.environment.skr.create(INFRASTRUCTURES, document, NAMESPACE, field_manager="user")

    async def _delete(self, name: str) -> None:
        try:
            await self.walkthrough.environment.skr.delete(INFRASTRUCTURES, name, NAMESPACE)
        except (NotFound, NotServed):
            return


@asynccontextmanager
async def two_watchers(walkthrough: Walkthrough, *event_ports: int) -> AsyncGenerator[WatcherReplicas, None]:
    """Run two Watchers instead of one until the block ends; each sends its events to its own port."""
    environment, programs = walkthrough.environment, walkthrough.programs
    assert environment.skr_routes is not None
    single = programs.started[WATCHER]
    await programs.stop(WATCHER)
    replicas = WatcherReplicas(walkthrough)
    before = {name: replicas.starts(name) for name in (FIRST, SECOND)}
    mount, ports = environment.directory / TLS_SECRET, (free_port(), free_port())
    for name, port, event_port in zip((FIRST, SECOND), ports, event_ports, strict=True):
        await programs.start(with_options(processes.skr_watcher(mount, port, event_port), name=name))
    others = (("127.0.0.1", ports[1]),)
    add_route(environment.skr_routes, Route(NAMESPACE, "skr-webhook", 443, "127.0.0.1", ports[0], others))
    try:
        await eventually(lambda: all(replicas.starts(name) > before[name] for name in before))
        await eventually(lambda: is_watcher_ready(environment))
        yield replicas
    finally:
        for name in (FIRST, SECOND):
            await programs.stop(name)
        port = int(single.environment["WEBHOOK_PORT"])
        add_route(environment.skr_routes, Route(NAMESPACE, "skr-webhook", 443, "127.0.0.1", port))
        await programs.start(single)
    await eventually(lambda: is_watcher_ready(environment))
