"""Runs the playground: starts everything, has the first cluster join, and prints what to try until Ctrl-C."""

import asyncio
import shlex
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import uvloop
from rich.console import Console

from kube_runtime import Client, KubeError
from kyma_demo.environment import Environment, install_module_crd, sample_module_cr
from kyma_demo.playground.catalog import CANARY, MODULE, STAGE, entries, layers
from kyma_demo.playground.kubelet import WatcherKubelet
from kyma_demo.programs import Programs
from kyma_demo.registry import serve_layers
from kyma_demo.running import demo_folder, exports
from kyma_fleet.problems import Problem
from kyma_fleet.registration.join import Joining, join
from kyma_fleet.registration.progress import follow
from kyma_fleet.screen import Screen
from kyma_local.binaries import BinariesMissing, find_binaries
from kyma_local.clusters import LocalCluster, LocalClusters, StartFailed
from kyma_local.kubectl import kubectl_command
from kyma_local.progress import progress_on
from kyma_local.sources import SourceFailed
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import Kyma, State

JOINED, OTHER = "demo", "second"
FOLDER = Path(".local/playground")
MODULE_CR = "infrastructure.yaml"
START_SECONDS = 300.0
"""For a busy machine; usually it takes 10 s."""
FAILURES = (BinariesMissing, KubeError, OSError, Problem, SourceFailed, StartFailed)


def run_playground() -> int:
    """Run it until SIGTERM or SIGINT; return the exit code."""
    console, code = Console(), 0
    try:
        with progress_on(console) as listener:
            find_binaries(listener)
        with demo_folder(None, FOLDER) as folder:
            uvloop.run(_run(folder, console))
    except* FAILURES as failed:
        console.print("\n".join(map(str, failed.exceptions)), style="red", markup=False, soft_wrap=True)
        code = 1
    return code


async def _run(folder: Path, console: Console) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with LocalClusters.start(skrs=2, directory=folder) as clusters, AsyncExitStack() as stack:
        playground = Playground(clusters, folder, stack, console)
        running = asyncio.ensure_future(playground.run())
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not stopping.is_set():
            await running  # raises why it has ended
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        console.print("stopping")


@dataclass(eq=False)
class Playground:
    """Everything that runs in it; `stack` stops what was started."""

    clusters: LocalClusters
    directory: Path
    stack: AsyncExitStack
    console: Console

    async def run(self) -> None:
        """Start everything, print what to try, and run until cancelled. Raises KubeError, StartFailed."""
        async with asyncio.TaskGroup() as kubelets:
            try:
                async with asyncio.timeout(START_SECONDS):
                    programs = await self._start(kubelets)
            except TimeoutError:
                raise Problem(f"not ready within {START_SECONDS:g} s: the logs are in {self.directory}/logs") from None
            self._print_next_commands()
            raise await self.clusters.first_ended(programs.running.values())

    async def _start(self, kubelets: asyncio.TaskGroup) -> Programs:
        (self.directory / MODULE_CR).write_text(sample_module_cr())
        kcp, first, second = [await self._client(each) for each in (self.clusters.kcp, *self.clusters.skrs)]
        kubeconfigs = self.clusters.kcp.admin_kubeconfig, self.clusters.skrs[0].admin_kubeconfig
        programs = Programs(Environment(kcp, first, *kubeconfigs, self.directory, self.clusters), self.stack)
        with self.console.status("starting the Lifecycle Manager and a Module Manager"):
            await programs.prepare()
            await apply_objects(kcp, entries(await self.stack.enter_async_context(serve_layers(layers().values()))))
            for client in (first, second):
                await install_module_crd(client)
            await programs.start_control_plane()
        self.console.print("[green]✓[/] the control plane runs: Lifecycle Manager, and a Module Manager")
        for cluster, client in zip(self.clusters.skrs, (first, second), strict=True):
            kubelet = WatcherKubelet(
                cluster.name, client, cluster.directory / "routes", self.directory, programs.event_port
            )
            kubelets.create_task(kubelet.run())
        with self.console.status(f"the cluster {JOINED} joins"):
            await self._join_first(kcp)
        self.console.print(f"[green]✓[/] the cluster {JOINED} has joined, with the module {MODULE}")
        return programs

    async def _join_first(self, kcp: Client) -> None:
        joining = Joining(
            name=JOINED,
            kubeconfig=self.clusters.skrs[0].admin_kubeconfig,
            labels={STAGE: CANARY},
            modules=(MODULE,),
            any_module=True,
            timeout=timedelta(seconds=START_SECONDS),
        )
        with (self.directory / "logs" / "klm-join.log").open("w") as log:
            screen = Screen(stream=log)
            await join(kcp, screen, joining)
            await follow(kcp, screen, JOINED, _is_ready, joining.timeout)

    async def _client(self, cluster: LocalCluster) -> Client:
        return await self.stack.enter_async_context(await Client.from_environment(cluster.admin_kubeconfig))

    def _print_next_commands(self) -> None:
        kcp, (first, second) = self.clusters.kcp, self.clusters.skrs
        lines = (
            exports(kcp.admin_kubeconfig),
            "klm status",
            f"klm explain {JOINED}",
            f"klm join {OTHER} --kubeconfig {shlex.quote(str(second.admin_kubeconfig))} --any-module",
            f"{kubectl_command(first.admin_kubeconfig)} -n kyma-system get kymas,configmaps",
            "klm ui",
        )
        self.console.print("\nIn another terminal:", highlight=False)
        for line in lines:
            self.console.print(f"  {line}", style="bold", highlight=False, soft_wrap=True)
        self.console.print(
            f"\nThe pages of docs/start go on from here. Logs: {self.directory / 'logs'}\nRunning until Ctrl-C.",
            highlight=False,
            soft_wrap=True,
        )


def _is_ready(kyma: Kyma | None) -> bool:
    if kyma is None or kyma.status.observed_generation != kyma.metadata.generation:
        return False
    return kyma.status.state == State.READY and len(kyma.status.modules) == len(kyma.spec.modules)
