"""The node: follows a cluster's Pods and Services, runs the first and leads the second to them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from kube_runtime import Change, Client, Informer, ObjectKey, Resource
from local.cluster import LocalCluster
from local.ports import free_port
from tests.node_agent.containers import JsonObject
from tests.node_agent.pod import PODS, PodRun

SERVICES: Resource[JsonObject] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
SYNC_SECONDS = 30.0
ServicePort = tuple[str, str, int]


class NodeAgent:
    """Runs every Pod of a cluster on this machine. `run` until cancelled; no process outlives it."""

    def __init__(self, cluster: LocalCluster, client: Client, folder: Path) -> None:
        self._cluster = cluster
        self._client = client
        self._folder = folder
        self._pods: Informer[JsonObject] = Informer(client, PODS)
        self._services: Informer[JsonObject] = Informer(client, SERVICES)
        self._runs: dict[str, PodRun] = {}
        self._routes: dict[ServicePort, int] = {}
        self._look = asyncio.Event()
        for informer in (self._pods, self._services):
            informer.on_change(self._noticed)

    @property
    def runs(self) -> tuple[PodRun, ...]:
        """The Pods that run."""
        return tuple(self._runs.values())

    def runs_of(self, release: str) -> tuple[PodRun, ...]:
        """Return the Pods of a Helm release that run."""
        named = {"app.kubernetes.io/instance": release}.items()
        return tuple(run for run in self.runs if named <= run.pod["metadata"]["labels"].items())

    async def run(self) -> None:
        """Run Pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._pods, self._services):
                tasks.create_task(informer.run())
            while True:
                await self._look.wait()
                self._look.clear()
                self._start_and_stop(tasks)
                await self._route()

    @asynccontextmanager
    async def load_balancer(self, namespace: str, service: str, port: int) -> AsyncGenerator[int, None]:
        """Lead a port of this machine to a Service's, as a load balancer in front of the cluster does."""

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = self._routes.get((namespace, service, port))
            with suppress(OSError):
                if target is not None:
                    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
                    async with asyncio.TaskGroup() as both:
                        both.create_task(_pump(reader, far_writer))
                        both.create_task(_pump(far_reader, writer))
            writer.close()

        number = free_port()
        server = await asyncio.start_server(handle, "127.0.0.1", number)
        try:
            yield number
        finally:
            server.close()

    def _noticed(self, _change: Change[JsonObject]) -> None:
        self._look.set()

    def _start_and_stop(self, tasks: asyncio.TaskGroup) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.cache.list()}
        for uid, pod in pods.items():
            leaving = "deletionTimestamp" in pod["metadata"]
            if uid in self._runs and leaving:
                self._runs[uid].stopping.set()
            elif uid not in self._runs and not leaving and not pod["spec"].get("nodeName"):
                folder = self._folder / pod["metadata"]["name"]
                run = PodRun(self._cluster, self._client, folder, pod, self._look.set)
                self._runs[uid] = run
                tasks.create_task(self._run_one(uid, run))
        for uid in self._runs.keys() - pods.keys():
            self._runs[uid].stopping.set()

    async def _run_one(self, uid: str, run: PodRun) -> None:
        try:
            await run.run()
        finally:
            del self._runs[uid]
            self._look.set()

    async def _route(self) -> None:
        """Lead each Service's ports to a ready Pod that it selects."""
        routes: dict[ServicePort, int] = {}
        for service in self._services.cache.list():
            key = ObjectKey(service["metadata"]["namespace"], service["metadata"]["name"])
            behind = self._behind(key.namespace, service["spec"].get("selector"))
            if behind is None or behind.process is None:
                continue
            for port in service["spec"].get("ports", ()):
                target = behind.process.port(port.get("targetPort", port["port"]))
                if target is not None:
                    routes[(str(key.namespace), key.name, port["port"])] = target
        for route, target in routes.items():
            if self._routes.get(route) != target:
                await self._cluster.route_service(*route, "127.0.0.1", target)
        self._routes = routes

    def _behind(self, namespace: str | None, selector: dict[str, Any] | None) -> PodRun | None:
        if not selector:
            return None
        selected = (
            run
            for run in self._runs.values()
            if run.ready and run.namespace == namespace and selector.items() <= run.pod["metadata"]["labels"].items()
        )
        return next(selected, None)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    with suppress(OSError):
        writer.close()
