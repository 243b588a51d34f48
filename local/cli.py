"""The commands `klm local …`: API servers on this machine for anyone who wants some."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from local.binaries import BinariesMissing, find_binaries
from local.clusters import LocalClusters, StartFailed

app = typer.Typer(help="Real API servers on this machine, without containers.", no_args_is_help=True)

PID_FILE = "klm-local.pid"


@app.command()
def up(
    skrs: Annotated[int, typer.Option(min=0, max=50, help="how many user clusters")] = 1,
    directory: Annotated[Path | None, typer.Option("--dir", help="where state, logs and kubeconfigs go")] = None,
) -> None:
    """Start a control plane (KCP) and user clusters (SKRs); stay until Ctrl-C."""
    console = Console()
    folder = (directory or Path(tempfile.mkdtemp(prefix="klm-local-"))).absolute()
    try:
        find_binaries_telling(console)
        uvloop.run(_stay(folder, skrs, console))
    except (BinariesMissing, StartFailed) as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None


@app.command()
def down(
    directory: Annotated[Path, typer.Option("--dir", help="the folder that `up` was given")],
) -> None:
    """Stop the clusters that were started with a folder."""
    pid_file = directory / PID_FILE
    try:
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError):
        typer.echo(f"no clusters run from {directory}")
        raise typer.Exit(1) from None


@app.command()
def binaries() -> None:
    """Fetch or build the API server binaries, if they are not here yet."""
    console = Console()
    try:
        console.print(f"binaries: {find_binaries_telling(console)}", highlight=False)
    except BinariesMissing as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None


def find_binaries_telling(console: Console) -> Path:
    """Return the folder of the binaries, showing what is being done meanwhile. Raises BinariesMissing."""
    with console.status("looking for the API server binaries") as status:
        return find_binaries(status.update).folder


async def _stay(folder: Path, skrs: int, console: Console) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with LocalClusters.start(skrs=skrs, directory=folder) as clusters:
        pid_file = folder / PID_FILE
        pid_file.write_text(str(os.getpid()))
        table = Table("cluster", "API server", "kubeconfig")
        for cluster in (clusters.kcp, *clusters.skrs):
            table.add_row(cluster.name, cluster.server, str(cluster.admin_kubeconfig))
        console.print(table)
        console.print(f"kubectl --kubeconfig {clusters.kcp.admin_kubeconfig} get namespaces", soft_wrap=True)
        console.print("running until Ctrl-C")
        await stopping.wait()
        pid_file.unlink()
