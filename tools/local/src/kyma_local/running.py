"""What the commands `klm local …` do on a console."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import uvloop
from rich.console import Console

from kyma_local.binaries import BinariesMissing, find_binaries
from kyma_local.claims import FolderInUse, claimed, first_unclaimed
from kyma_local.clusters import LocalClusters, StartFailed
from kyma_local.helm import find_helm
from kyma_local.kubectl import find_kubectl, kubectl_command
from kyma_local.nodes.node import Nodes
from kyma_local.nodes.programs import find_programs
from kyma_local.nodes.requirements import NodesUnavailable, require_nodes
from kyma_local.progress import Listener, progress_on
from kyma_local.sources import KUBERNETES, SourceFailed, Versions


def run_clusters(
    directory: Path | None, default: Path, *, skrs: int, images: Path | None, kubernetes: str = KUBERNETES
) -> int:
    """Run clusters in a folder, without one in the first free one; return the exit code.

    With a folder of images, they have nodes. `kubernetes` is the version.
    """

    def run(console: Console) -> None:
        if images is not None:
            require_nodes()
        with progress_on(console) as listener:
            binaries = find_binaries(listener, versions=Versions(kubernetes=kubernetes))
            programs = None if images is None else find_programs(listener, version=kubernetes)
        nodes = Nodes.with_images_in(images, programs) if images and programs else None
        with claimed(directory) if directory else first_unclaimed(default) as folder:
            uvloop.run(_stay(LocalClusters.start(skrs=skrs, directory=folder, nodes=nodes, binaries=binaries), console))

    return _exit_code(run)


def print_binaries(kubernetes: str, *, nodes: bool = False) -> int:
    """Print where the binaries are, fetched if necessary; return the exit code."""
    versions = Versions(kubernetes=kubernetes)

    def find(listener: Listener) -> str:
        found = f"binaries: {find_binaries(listener, versions=versions).folder}"
        return f"{found}\nof nodes: {find_programs(listener, version=kubernetes)}" if nodes else found

    return _exit_code(lambda console: _fetch(console, find))


def print_helm() -> int:
    """Print where Helm is, built if necessary; return the exit code."""
    return _exit_code(lambda console: _fetch(console, lambda to: str(find_helm(to))))


def run_kubectl(arguments: Sequence[str]) -> int:
    """Become kubectl, fetched if necessary; return the exit code where it cannot be fetched."""

    def run(console: Console) -> None:
        with progress_on(console) as listener:
            program = find_kubectl(listener)
        os.execv(program, [program.name, *arguments])  # noqa: S606 - kubectl, with the arguments of our caller

    return _exit_code(run, Console(stderr=True))


def _exit_code(work: Callable[[Console], None], on: Console | None = None) -> int:
    console = on or Console()
    try:
        work(console)
    except (BinariesMissing, FolderInUse, NodesUnavailable, OSError, SourceFailed, StartFailed) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    return 0


def _fetch(console: Console, find: Callable[[Listener], str]) -> None:
    with progress_on(console) as listener:
        found = find(listener)
    console.print(found, highlight=False, soft_wrap=True)


async def _stay(starting: AbstractAsyncContextManager[LocalClusters], console: Console) -> None:
    """Run clusters until SIGTERM or SIGINT. Raises StartFailed, also if a program ends by itself."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        with console.status("starting the clusters"):
            clusters = await stack.enter_async_context(starting)
        print_clusters(clusters, console)
        ended = asyncio.ensure_future(clusters.first_ended())
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (ended, stopped):
            waiting.cancel()
        if not stopping.is_set():
            raise ended.result()
        console.print("stopping")


def print_clusters(clusters: LocalClusters, console: Console) -> None:
    """Print how to reach the clusters."""
    for each in (clusters.kcp, *clusters.skrs):  # not in a table, which would cut the paths
        console.print(f"{each.name:6}  {each.server}  {each.admin_kubeconfig}", highlight=False, soft_wrap=True)
    console.print("\nIn another terminal:", highlight=False)
    for cluster in (clusters.kcp, *clusters.skrs[:1]):
        what = "pods -A" if clusters.nodes else "namespaces"
        command = f"{kubectl_command(cluster.admin_kubeconfig)} get {what}"
        console.print(f"  {command}", style="bold", highlight=False, soft_wrap=True)
    console.print("\nRunning until Ctrl-C.", highlight=False)
