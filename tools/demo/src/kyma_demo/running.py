"""Runs the demo: claims its folder, stops on a signal, and prints what to try next."""

import asyncio
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from kube_runtime import KubeError
from kyma_demo.environment import Environment, open_environment
from kyma_demo.output import TerminalOutput, print_summary
from kyma_demo.pods import Pods
from kyma_demo.programs import Programs
from kyma_demo.report import DemoReport
from kyma_demo.walkthrough import Walkthrough
from kyma_local.binaries import BinariesMissing, find_binaries
from kyma_local.claims import FolderInUse, claimed, first_unclaimed
from kyma_local.clusters import StartFailed
from kyma_local.helm import Helm, find_helm
from kyma_local.kubectl import kubectl_command
from kyma_local.nodes.node import Nodes
from kyma_local.nodes.programs import find_programs
from kyma_local.nodes.requirements import NodesUnavailable, require_nodes
from kyma_local.progress import Listener, progress_on
from kyma_local.sources import SourceFailed


@dataclass(frozen=True, slots=True)
class OnNodes:
    """What is installed on nodes, and with what: the folder of images, that of charts, and Helm."""

    nodes: Nodes
    charts: Path
    helm: Path

    @classmethod
    def find(cls, images: Path, charts: Path, listener: Listener) -> "OnNodes":
        """Find it, built if necessary. Raises NodesUnavailable and SourceFailed."""
        require_nodes()
        if not any(images.glob("*.tar")) or not (charts / "lifecycle-manager").is_dir():
            raise NodesUnavailable(f"{images} has no images, or {charts} no charts: `make images` in the repository")
        return cls(Nodes.with_images_in(images, find_programs(listener)), charts, find_helm(listener))


def run_demo(
    *,
    stay: bool,
    as_document: bool,
    changes: int,
    kcp: Path | None,
    skr: Path | None,
    directory: Path | None,
    images_and_charts: tuple[Path, Path] | None = None,
) -> int:
    """Run the demo on local clusters, or on those of two kubeconfigs; return its exit code.

    With folders of images and charts, the local clusters have nodes.
    """
    console = Console(stderr=as_document)
    on_nodes = None
    try:
        if kcp is None:
            with progress_on(console) as listener:
                find_binaries(listener)
                if images_and_charts is not None:
                    on_nodes = OnNodes.find(*images_and_charts, listener)
        with demo_folder(directory) as folder:
            report = uvloop.run(_run(folder, kcp, skr, changes, console, on_nodes, stay=stay, quiet=as_document))
    except (BinariesMissing, FolderInUse, KubeError, NodesUnavailable, OSError, SourceFailed, StartFailed) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    if as_document:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report.as_document()), indent=2).decode() + "\n")
    return 0 if report.verified else 1


@contextmanager
def demo_folder(directory: Path | None, default: Path = Path(".local/demo")) -> Iterator[Path]:
    """Claim the folder of this run: the given one, or a folder in .local, from which an earlier run is deleted."""
    if directory is not None:
        with claimed(directory.absolute()) as folder:
            yield folder
        return
    with first_unclaimed(default.absolute()) as folder:
        for left in folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
        yield folder


async def _run(
    folder: Path,
    kcp: Path | None,
    skr: Path | None,
    changes: int,
    console: Console,
    on_nodes: OnNodes | None,
    *,
    stay: bool,
    quiet: bool,
) -> DemoReport:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    output = TerminalOutput(None if quiet else console)
    nodes = None if on_nodes is None else on_nodes.nodes
    async with open_environment(folder, kcp, skr, nodes) as environment, AsyncExitStack() as stack:
        walkthrough = Walkthrough(environment, _programs(environment, stack, on_nodes), output, changes)
        running = asyncio.ensure_future(walkthrough.run())
        stop_requested = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({running, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return walkthrough.report
        stop_requested.cancel()
        running.result()  # raises why it has ended
        if not quiet:
            print_summary(console, walkthrough.report)
        if stay and walkthrough.report.verified:
            print_next_commands(
                console, environment.kcp_kubeconfig, environment.skr_kubeconfig, walkthrough.programs.next_commands()
            )
            console.print(f"Logs: {environment.logs}", highlight=False, soft_wrap=True)
            await stopping.wait()
    return walkthrough.report


def _programs(environment: Environment, stack: AsyncExitStack, on_nodes: OnNodes | None) -> Programs:
    if on_nodes is None or environment.clusters is None:
        return Programs(environment, stack)
    helm = Helm(on_nodes.helm, environment.directory / "helm", environment.kcp_kubeconfig)
    return Pods(environment, stack, clusters=environment.clusters, charts=on_nodes.charts, helm=helm)


def print_next_commands(console: Console, kcp: Path, skr: Path, of_programs: str) -> None:
    """Print what can be tried with the clusters of these kubeconfigs."""
    in_kcp, in_skr = map(kubectl_command, (kcp, skr))
    console.print(
        "\nEverything runs until Ctrl-C. In another terminal:\n"
        f"  [bold]{exports(kcp)}[/]\n"
        "and as the user of the cluster, for instance:\n"
        f"  [bold]{in_skr} -n kyma-system edit infrastructure default[/]\n"
        f"  [bold]{in_skr} -n kyma-system get configmaps,networkpolicies[/]\n"
        "and in the control plane:\n"
        f"  [bold]{in_kcp} -n kcp-system get kymas,moduleconfigs,syncresources[/]\n"
        "  [bold]klm explain demo cloud-resources[/]\n"
        f"{of_programs.rstrip()}",
        highlight=False,
        soft_wrap=True,
    )


def exports(kubeconfig: Path, prefix: str = sys.prefix, base_prefix: str = sys.base_prefix) -> str:
    """Return what another terminal needs first; the programs of a venv are not on its PATH."""
    path = f"PATH={shlex.quote(f'{prefix}/bin')}:$PATH " if prefix != base_prefix else ""
    return f"export {path}KUBECONFIG={shlex.quote(str(kubeconfig))}"
