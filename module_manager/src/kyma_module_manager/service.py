"""A manager at work: two informers, one queue, and the port that tells how it is doing.

Changes flow one way: informer → queue → reconciler → API server → informer. What this process knows is only a
cache of the control plane, so it can be stopped at any moment and started anywhere.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import structlog

from kube_runtime import Client, Controller, Informer, KubeError, ObjectKey, Priority
from kube_runtime.leases import LeaderElection, LeaseTiming
from kyma_module_manager.changes import module_config_handler, sync_resource_handler
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import ControlPlaneUnreadable, LeadershipLost
from kyma_module_manager.health import serve_health
from kyma_module_manager.latest import Latest
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import RESYNC_SECONDS, SETTLE_SECONDS, Reconciler
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES, ClusterWriter, PrintingWriter, Writer
from lifecycle_manager_api import ModuleConfig, SyncResource, names

__all__ = ["ManagerService", "ServiceOptions"]

T = TypeVar("T")
log = structlog.get_logger("module_manager")


@dataclass(frozen=True)
class ServiceOptions:
    """How a manager runs. An empty health host stands for every interface, a port of 0 for any free one.

    `identity` names this replica in the Lease. Pods of one node's network all have the node's host name, so theirs is
    better told by their own name.
    """

    namespace: str = names.KCP_NAMESPACE
    health_host: str = ""
    health_port: int = 8080
    concurrency: int = 10
    resync_seconds: float = RESYNC_SECONDS
    sync_timeout_seconds: float = 60.0
    grace_seconds: float = 20.0
    dry_run: bool = False
    leader_elect: bool = False
    identity: str = field(default_factory=socket.gethostname)
    lease: LeaseTiming = field(default_factory=LeaseTiming)


class ManagerService(Generic[T]):
    """Runs one manager against one control plane, until it is told to stop or once over all that is there."""

    def __init__(
        self,
        manager: ModuleManager[T],
        client: Client,
        options: ServiceOptions = ServiceOptions(),
        *,
        metrics: ManagerMetrics | None = None,
        echo: Callable[[str], None] = print,
    ) -> None:
        self._manager = manager
        self._client = client
        self._options = options
        self._election = self._candidacy() if options.leader_elect else None
        self._echo = echo
        self._metrics = metrics or ManagerMetrics(manager.module)
        watched: dict[str, Any] = {
            "namespace": options.namespace,
            "label_selector": f"{names.MODULE_NAME}={manager.module}",
            "metrics": self._metrics.runtime,
        }
        self._configs = Informer(client, MODULE_CONFIGS, **watched)
        self._sync_resources = Informer(client, SYNC_RESOURCES, **watched)
        self._latest_configs: Latest[ModuleConfig] = Latest(self._configs.cache)
        self._latest_sync_resources: Latest[SyncResource] = Latest(self._sync_resources.cache)

    @property
    def ready(self) -> bool:
        """Tell whether the caches hold what the control plane holds."""
        return self._configs.synced and self._sync_resources.synced

    async def run(self, stop: asyncio.Event) -> None:
        """Follow every change until `stop` is set, then finish what is under way.

        Raises LeadershipLost where this process led and may not any more: start it anew.
        """
        reconciler = self._reconciler(settle_seconds=SETTLE_SECONDS)
        controller = Controller(
            f"module-manager-{self._manager.module}",
            reconciler.reconcile,
            concurrency=self._options.concurrency,
            metrics=self._metrics.runtime,
        )
        self._follow_changes(reconciler, controller)
        health = serve_health(
            self._options.health_host, self._options.health_port, lambda: self.ready, self._metrics.registry
        )
        async with health as port, self._informers():
            log.info("watching", module=self._manager.module, namespace=self._options.namespace, health_port=port)
            await self._run_until(stop, controller)

    async def run_once(self) -> tuple[str, ...]:
        """Reconcile every ModuleConfig that is there; return the names of those that failed.

        Raises ControlPlaneUnreadable if it cannot be known which are there.
        """
        reconciler = self._reconciler(settle_seconds=0)
        async with self._informers():
            problem = await self._sync_problem()
            failed = () if problem else tuple([key.name for key in self._keys() if await self._fails(reconciler, key)])
        if problem:
            raise ControlPlaneUnreadable(problem)
        return failed

    def _keys(self) -> list[ObjectKey]:
        return sorted(ObjectKey(each.metadata.namespace, each.metadata.name) for each in self._configs.cache.list())

    async def _fails(self, reconciler: Reconciler[T], key: ObjectKey) -> bool:
        try:
            attempt = await reconciler.attempt(key)
        except KubeError:
            log.exception("reconcile failed", name=key.name)
            return True
        return attempt.failure is not None

    def _reconciler(self, *, settle_seconds: float) -> Reconciler[T]:
        return Reconciler(
            self._manager,
            self._latest_configs,
            self._latest_sync_resources,
            self._writer(),
            self._metrics,
            now=lambda: datetime.now(UTC),
            settle_seconds=settle_seconds,
            resync_seconds=self._options.resync_seconds,
        )

    def _writer(self) -> Writer:
        if self._options.dry_run:
            return PrintingWriter(self._echo)
        client = self._client if self._election is None else self._client.fenced_by(self._election.check)
        return ClusterWriter(client, f"module-manager-{self._manager.module}")

    def _follow_changes(self, reconciler: Reconciler[T], controller: Controller[ObjectKey]) -> None:
        def config_changed(key: ObjectKey) -> None:
            reconciler.noticed(key)
            # What is there at the start must not delay what a user changes meanwhile.
            controller.queue.add(key, Priority.CHANGE if self._configs.synced else Priority.RESYNC)

        def sync_resource_changed(key: ObjectKey) -> None:
            if self._configs.cache.get(key) is not None:
                controller.queue.add(key, Priority.RESYNC)

        self._configs.on_change(module_config_handler(self._latest_configs, config_changed))
        self._sync_resources.on_change(sync_resource_handler(self._latest_sync_resources, sync_resource_changed))

    @asynccontextmanager
    async def _informers(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._configs.run()), group.create_task(self._sync_resources.run())]
            yield
            for task in tasks:
                task.cancel()

    async def _run_until(self, stop: asyncio.Event, controller: Controller[ObjectKey]) -> None:
        async with asyncio.TaskGroup() as group:
            stopped = group.create_task(stop.wait())
            synced = group.create_task(self._synced())
            await asyncio.wait({stopped, synced}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                synced.cancel()
                return
            if self._election is None:
                await self._work(stop, controller)
            else:
                await self._lead(stop, controller, self._election)

    async def _work(self, stop: asyncio.Event, controller: Controller[ObjectKey]) -> None:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(controller.run())
            await stop.wait()
            await controller.shutdown(self._options.grace_seconds)
            working.cancel()

    async def _lead(self, stop: asyncio.Event, controller: Controller[ObjectKey], election: LeaderElection) -> None:
        """Wait to be the leader, then work; end when told to stop, leading or not. Raises LeadershipLost."""
        lost = asyncio.Event()

        async def lead() -> None:
            log.info("leading", module=self._manager.module, identity=election.identity)
            try:
                await self._work(stop, controller)
            except asyncio.CancelledError:
                lost.set()
                raise

        leading = asyncio.ensure_future(election.run(lead))
        waiting = {leading, asyncio.ensure_future(stop.wait()), asyncio.ensure_future(lost.wait())}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if lost.is_set():
                raise LeadershipLost(f"{election.identity} lost its lease; another process may be at work by now")
            if election.is_leader or leading.done():
                await leading
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    def _candidacy(self) -> LeaderElection:
        return LeaderElection(
            self._client,
            namespace=self._options.namespace,
            name=f"module-manager-{self._manager.module}",
            identity=self._options.identity,
            timing=self._options.lease,
        )

    async def _synced(self) -> None:
        """Wait until both caches are filled, however long the control plane is away."""
        while problem := await self._sync_problem():
            log.warning("the control plane cannot be read", error=problem)

    async def _sync_problem(self) -> str | None:
        """Wait a while for both caches; return what keeps one from being filled."""
        try:
            for informer in (self._configs, self._sync_resources):
                await informer.wait_synced(self._options.sync_timeout_seconds)
        except TimeoutError as error:
            return f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        return None
