"""The node: watches a cluster's Pods and Services, runs the Pods, and forwards the Services to them."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

from kube_runtime import Change, Client, Informer
from kyma_local.cluster import LocalCluster
from tests.kinds import PODS, SERVICES
from tests.node_agent.balancer import balancer
from tests.node_agent.environment import JsonObject
from tests.node_agent.pod import PodRun

ServicePort = tuple[str, str, int]


class NodeAgent:
    """Runs every Pod of a cluster on this machine, while `run` runs; no process outlives it.

    `versions` maps tags of images to folders of programs.
    """

    def __init__(
        self, cluster: LocalCluster, client: Client, folder: Path, versions: Mapping[str, Path] = MappingProxyType({})
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._folder = folder
        self._versions = versions
        self._pods: Informer[JsonObject] = Informer(client, PODS)
        self._services: Informer[JsonObject] = Informer(client, SERVICES)
        self._runs: dict[str, PodRun] = {}
        self._started: set[str] = set()
        self._ready: dict[ServicePort, tuple[int, ...]] = {}
        self._routed: set[ServicePort] = set()
        self._changed = asyncio.Event()
        for informer in (self._pods, self._services):
            informer.on_change(self._on_change)

    @property
    def runs(self) -> tuple[PodRun, ...]:
        return tuple(self._runs.values())

    def runs_of(self, release: str) -> tuple[PodRun, ...]:
        named = {"app.kubernetes.io/instance": release}.items()
        return tuple(run for run in self.runs if named <= run.pod["metadata"]["labels"].items())

    async def run(self) -> None:
        """Run Pods until cancelled."""
        async with AsyncExitStack() as balancers, asyncio.TaskGroup() as tasks:
            for informer in (self._pods, self._services):
                tasks.create_task(informer.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._start_and_stop(tasks)
                await self._route(balancers)

    @asynccontextmanager
    async def load_balancer(self, namespace: str, service: str, port: int) -> AsyncGenerator[int, None]:
        """Forward a port of this machine to the port of a Service, like a load balancer in front of the cluster."""
        async with balancer(partial(self._targets, (namespace, service, port))) as number:
            yield number

    def _on_change(self, _change: Change[JsonObject]) -> None:
        self._changed.set()

    def _start_and_stop(self, tasks: asyncio.TaskGroup) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.cache.list()}
        for uid, pod in pods.items():
            being_deleted = "deletionTimestamp" in pod["metadata"]
            if uid in self._runs and being_deleted:
                self._runs[uid].stopping.set()
            elif uid not in self._started and not being_deleted and not pod["spec"].get("nodeName"):
                # Once only: a Pod that has ended may still be in the cache in its version before it was bound.
                self._started.add(uid)
                folder = self._folder / pod["metadata"]["name"]
                run = PodRun(self._cluster, self._client, folder, pod, self._changed.set, self._versions)
                self._runs[uid] = run
                tasks.create_task(self._run_one(uid, run))
        for uid in self._runs.keys() - pods.keys():
            self._runs[uid].stopping.set()

    async def _run_one(self, uid: str, run: PodRun) -> None:
        try:
            await run.run()
        finally:
            del self._runs[uid]
            self._changed.set()

    async def _route(self, balancers: AsyncExitStack) -> None:
        """Forward the ports of each Service to the ready Pods that it selects."""
        self._ready = {
            (str(service["metadata"]["namespace"]), str(service["metadata"]["name"]), int(port["port"])): tuple(
                target
                for run in self._behind(service)
                if run.process is not None
                and (target := run.process.port(port.get("targetPort", port["port"]))) is not None
            )
            for service in self._services.cache.list()
            for port in service["spec"].get("ports", ())
        }
        # If no Pod was ever ready, a process that the node does not run may be behind the Service.
        for route in {route for route, targets in self._ready.items() if targets} - self._routed:
            number = await balancers.enter_async_context(balancer(partial(self._targets, route)))
            await self._cluster.route_service(*route, "127.0.0.1", number)
            self._routed.add(route)

    def _targets(self, route: ServicePort) -> tuple[int, ...]:
        return self._ready.get(route, ())

    def _behind(self, service: JsonObject) -> list[PodRun]:
        selector = service["spec"].get("selector")
        if not selector:
            return []
        return [
            run
            for run in self._runs.values()
            if run.ready
            and run.namespace == service["metadata"]["namespace"]
            and selector.items() <= run.pod["metadata"]["labels"].items()
        ]
