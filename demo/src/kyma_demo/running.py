"""Runs the demo: claims its folder, stops on a signal, and prints what to try next."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from kube_runtime import KubeError
from kyma_demo.environment import Environment, open_environment
from kyma_demo.output import TerminalOutput, print_summary
from kyma_demo.programs import Programs
from kyma_demo.report import DemoReport, NoOutput
from kyma_demo.walkthrough import Walkthrough
from kyma_local.binaries import BinariesMissing, find_binaries
from kyma_local.claims import FolderInUse, claimed, first_unclaimed
from kyma_local.clusters import StartFailed
from kyma_local.progress import progress_on


def run_demo(
    *, stay: bool, as_document: bool, changes: int, kcp: Path | None, skr: Path | None, directory: Path | None
) -> int:
    """Run the demo on local clusters, or on those of two kubeconfigs; return its exit code."""
    console = Console(stderr=as_document)
    try:
        if kcp is None:
            with progress_on(console) as listener:
                find_binaries(listener)
        with _folder(directory) as folder:
            report = uvloop.run(_run(folder, kcp, skr, changes, console, stay=stay, quiet=as_document))
    except (BinariesMissing, FolderInUse, StartFailed, KubeError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    if as_document:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report.as_document()), indent=2).decode() + "\n")
    return 0 if report.verified else 1


@contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    """Claim the folder of this run: the given one, or a folder in .local, from which an earlier run is deleted."""
    if directory is not None:
        with claimed(directory.absolute()) as folder:
            yield folder
        return
    with first_unclaimed(Path(".local/demo").absolute()) as folder:
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
    *,
    stay: bool,
    quiet: bool,
) -> DemoReport:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    output = NoOutput() if quiet else TerminalOutput(console)
    async with open_environment(folder, kcp, skr) as environment, AsyncExitStack() as stack:
        walkthrough = Walkthrough(environment, Programs(environment, stack), output, changes)
        running = asyncio.ensure_future(walkthrough.run())
        stop_requested = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({running, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return walkthrough.report
        stop_requested.cancel()
        if not quiet:
            print_summary(console, walkthrough.report)
        if stay and walkthrough.report.verified:
            _print_next_commands(console, environment, walkthrough.programs.page_port)
            await stopping.wait()
    return walkthrough.report


def _print_next_commands(console: Console, environment: Environment, page_port: int) -> None:
    kcp, skr = environment.kcp_kubeconfig, environment.skr_kubeconfig
    console.print(
        "\nEverything runs until Ctrl-C. Try as the user of the cluster, for instance:\n"
        f"  [bold]kubectl --kubeconfig {skr} -n kyma-system edit infrastructure default[/]\n"
        f"  [bold]kubectl --kubeconfig {skr} -n kyma-system get configmaps,networkpolicies[/]\n"
        "and in the control plane:\n"
        f"  [bold]kubectl --kubeconfig {kcp} -n kcp-system get kymas,moduleconfigs,syncresources[/]\n"
        f"  [bold]klm explain demo cloud-resources --kubeconfig {kcp}[/]\n"
        f"The fleet page is at [bold]http://127.0.0.1:{page_port}[/], with the token of\n"
        f"  [bold]kubectl --kubeconfig {kcp} -n kcp-system create token lifecycle-manager[/]\n"
        f"Logs: {environment.logs}",
        highlight=False,
        soft_wrap=True,
    )
