"""In the place of a kubelet: runs the Watcher of a cluster as a process, as long as the cluster has its Secret."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from kube_runtime import Client, KubeError, NotFound
from kyma_demo import names, processes
from kyma_demo.programs import TLS_SECRET, project
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from lifecycle_manager.contract.resources import SECRETS, Secret

INTERVAL_SECONDS = 0.5


@dataclass(eq=False)
class WatcherKubelet:
    """Mounts the Watcher's Secret of a cluster, starts the Watcher with it, and stops it where the Secret is deleted.

    `routes` is the file of the cluster's routes to Services, `event_port` that of the Lifecycle Manager.
    """

    name: str
    skr: Client
    routes: Path
    directory: Path
    event_port: int
    watcher: ChildProcess | None = None
    _webhook_port: int = field(default_factory=free_port)
    _mounted: str = ""

    async def run(self) -> None:
        """Run until cancelled, and stop the Watcher. A Watcher that has ended is started again."""
        try:
            while True:
                await self._sync()
                await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            await self._stop()

    async def _sync(self) -> None:
        try:
            secret = await self.skr.get(SECRETS, TLS_SECRET, names.SKR_NAMESPACE)
        except NotFound:
            await self._stop()
            return
        except KubeError:  # a request that is late on a busy machine: the next one is half a second later
            return
        await self._mount(secret)
        if self.watcher is None or self.watcher.returncode is not None:
            program = processes.skr_watcher(self._folder, self._webhook_port, self.event_port, name=self._program)
            self.watcher = await processes.start(program, self.directory / "logs")
            add_route(self.routes, Route(names.SKR_NAMESPACE, "skr-webhook", 443, "127.0.0.1", self._webhook_port))

    async def _mount(self, secret: Secret) -> None:
        version = secret.metadata.resource_version
        if version != self._mounted:
            project(secret, self._folder)
            self._mounted = version

    async def _stop(self) -> None:
        if self.watcher is not None:
            await self.watcher.stop()
            self.watcher = None

    @property
    def _program(self) -> str:
        return f"skr-watcher-{self.name}"

    @property
    def _folder(self) -> Path:
        return self.directory / f"{self.name}-webhook-tls"
