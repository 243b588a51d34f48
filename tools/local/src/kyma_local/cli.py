"""The commands `klm local …`: API servers on this machine."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kyma_local.claims import holder
from kyma_local.sources import KUBERNETES

app = typer.Typer(
    help="Real API servers on this machine, without containers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

HOME = Path(".local")
CLUSTERS = "clusters"
IMAGES = "images"
STOP_SECONDS = 40.0


def version(given: str) -> str:
    """Return a version as releases are named, also where it was given without its `v`."""
    found = re.fullmatch(r"v?([0-9]+\.[0-9]+\.[0-9]+(-[a-z]+\.[0-9]+)?)", given)
    if found is None:
        raise typer.BadParameter(f"{given!r} is no version such as {KUBERNETES}")
    return f"v{found[1]}"


Folder = Annotated[Path | None, typer.Option("--dir", help="folder for state, logs and kubeconfigs")]
OfKubernetes = Annotated[str, typer.Option(help="version of Kubernetes", callback=version)]


@app.command()
def up(
    skrs: Annotated[int, typer.Option(min=0, max=50, help="number of user clusters")] = 1,
    directory: Folder = None,
    nodes: Annotated[bool, typer.Option("--nodes", help="run a node in each cluster: Linux, as root")] = False,
    images: Annotated[Path, typer.Option(help="folder of OCI archives for the nodes")] = HOME / IMAGES,
    kubernetes: OfKubernetes = KUBERNETES,
) -> None:
    """Run a control plane (KCP) and user clusters (SKRs).

    They run until Ctrl-C. State is in .local/clusters of the current folder, or
    in --dir, and is kept for the next start. With --nodes, Pods run; the images
    of the folder are loaded, the Watcher's in SKRs and all others in the KCP.
    """
    from kyma_local.running import run_clusters

    default = (HOME / CLUSTERS).absolute()
    folder = directory and directory.absolute()
    raise typer.Exit(run_clusters(folder, default, skrs=skrs, images=images if nodes else None, kubernetes=kubernetes))


@app.command()
def down(directory: Folder = None) -> None:
    """Stop the clusters of `klm local up`."""
    folder = directory or _running_folder()
    process = holder(folder)
    if process is None:
        _fail(f"no clusters are running in {folder}")
    try:
        os.kill(process, signal.SIGTERM)
    except PermissionError:
        _fail(f"process {process} of the clusters in {folder} is of another user, such as root; stop it as that one")
    except ProcessLookupError:
        pass  # it has ended by itself meanwhile
    deadline = time.monotonic() + STOP_SECONDS
    while holder(folder) == process:
        if time.monotonic() > deadline:
            _fail(f"process {process} of the clusters in {folder} has not ended within {STOP_SECONDS:g} s")
        time.sleep(0.05)
    typer.echo(f"stopped the clusters in {folder}")


@app.command()
def binaries(
    kubernetes: OfKubernetes = KUBERNETES,
    nodes: Annotated[bool, typer.Option("--nodes", help="the programs of nodes, too")] = False,
) -> None:
    """Download or build the API servers, unless they are cached."""
    from kyma_local.running import print_binaries

    raise typer.Exit(print_binaries(kubernetes, nodes=nodes))


@app.command()
def helm() -> None:
    """Build Helm, unless it is cached, and print its path."""
    from kyma_local.running import print_helm

    raise typer.Exit(print_helm())


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def kubectl(context: typer.Context) -> None:
    """Run kubectl: that of this machine, or one that is fetched, once."""
    from kyma_local.running import run_kubectl

    raise typer.Exit(run_kubectl(context.args))


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
