"""The commands `klm local …`: API servers on this machine."""

import asyncio
import os
import signal
import time
from contextlib import AbstractContextManager, AsyncExitStack
from pathlib import Path
from typing import Annotated, NoReturn

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from kyma_local.binaries import BinariesMissing, find_binaries
from kyma_local.claims import FolderInUse, claimed, first_unclaimed, holder
from kyma_local.clusters import LocalClusters, StartFailed
from kyma_local.helm import find_helm
from kyma_local.progress import progress_on
from kyma_local.sources import KUBERNETES, SourceFailed, Versions

app = typer.Typer(help="Real API servers on this machine, without containers.", no_args_is_help=True)

HOME = Path(".local")
CLUSTERS = "clusters"
STOP_SECONDS = 40.0

Folder = Annotated[Path | None, typer.Option("--dir", help="folder for state, logs and kubeconfigs")]


@app.command()
def up(
    skrs: Annotated[int, typer.Option(min=0, max=50, help="number of user clusters")] = 1,
    directory: Folder = None,
) -> None:
    """Start a control plane (KCP) and user clusters (SKRs); stay until Ctrl-C.

    State is in .local/clusters of the current folder, or in --dir, and is kept for the next start.
    """
    console = Console()
    try:
        with progress_on(console) as listener:
            find_binaries(listener)
        with _folder(directory) as folder:
            uvloop.run(_stay(folder, skrs, console))
    except (BinariesMissing, FolderInUse, StartFailed) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None


@app.command()
def down(directory: Folder = None) -> None:
    """Stop the clusters of `klm local up`, and wait until they have stopped."""
    folder = directory or _running_folder()
    process = holder(folder)
    if process is None:
        _fail(f"no clusters are running in {folder}")
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while holder(folder) == process:
        if time.monotonic() > deadline:
            _fail(f"process {process} of the clusters in {folder} has not ended within {STOP_SECONDS:g} s")
        time.sleep(0.05)
    typer.echo(f"stopped the clusters in {folder}")


@app.command()
def binaries(
    kubernetes: Annotated[str, typer.Option(help="version of Kubernetes")] = KUBERNETES,
) -> None:
    """Download or build the API server binaries, unless they are cached."""
    console = Console()
    try:
        with progress_on(console) as listener:
            found = find_binaries(listener, versions=Versions(kubernetes=kubernetes))
    except BinariesMissing as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(f"binaries: {found.folder}", highlight=False, soft_wrap=True)


@app.command()
def helm() -> None:
    """Build Helm, unless it is cached, and print its path."""
    console = Console()
    try:
        with progress_on(console) as listener:
            found = find_helm(listener)
    except SourceFailed as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(str(found), highlight=False, soft_wrap=True)


def _folder(directory: Path | None) -> AbstractContextManager[Path]:
    return first_unclaimed((HOME / CLUSTERS).absolute()) if directory is None else claimed(directory.absolute())


def _running_folder() -> Path:
    running = sorted(folder for folder in HOME.glob(f"{CLUSTERS}*") if holder(folder) is not None)
    if not running:
        _fail(f"no clusters are running in {HOME.absolute()}; choose a folder with --dir")
    if len(running) > 1:
        _fail(f"clusters are running in {', '.join(map(str, running))}; choose one with --dir")
    return running[0]


def _fail(message: str) -> NoReturn:
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(1)


async def _stay(folder: Path, skrs: int, console: Console) -> None:
    """Run clusters until SIGTERM or SIGINT. Raises StartFailed, also if a program ends by itself."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        with console.status("starting the clusters"):
            clusters = await stack.enter_async_context(LocalClusters.start(skrs=skrs, directory=folder))
        _print_clusters(clusters, console)
        ended = asyncio.ensure_future(clusters.first_ended())
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (ended, stopped):
            waiting.cancel()
        if not stopping.is_set():
            raise ended.result()
        console.print("stopping")


def _print_clusters(clusters: LocalClusters, console: Console) -> None:
    table = Table("cluster", "API server", "kubeconfig", box=None)
    for cluster in (clusters.kcp, *clusters.skrs):
        table.add_row(cluster.name, cluster.server, str(cluster.admin_kubeconfig))
    console.print(table, soft_wrap=True)
    console.print("\nIn another terminal:", highlight=False)
    for cluster in (clusters.kcp, *clusters.skrs[:1]):
        command = f"kubectl --kubeconfig {cluster.admin_kubeconfig} get namespaces"
        console.print(f"  {command}", style="bold", highlight=False, soft_wrap=True)
    console.print("\nRunning until Ctrl-C.", highlight=False)
