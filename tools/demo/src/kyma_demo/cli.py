"""The commands `klm demo` and `klm playground`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from kyma_demo.announcement import announcement, playground_announcement


def demo(
    once: Annotated[bool, typer.Option("--once", help="stop after the last step")] = False,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="steps, or one document")
    ] = "table",
    changes: Annotated[int, typer.Option(min=1, max=1000, help="number of changes to measure")] = 50,
    kcp_kubeconfig: Annotated[Path | None, typer.Option(help="use this control plane, not a local one")] = None,
    skr_kubeconfig: Annotated[Path | None, typer.Option(help="use this user cluster, not a local one")] = None,
    nodes: Annotated[bool, typer.Option("--nodes", help="run all in Pods, on real nodes: Linux, as root")] = False,
    images: Annotated[Path, typer.Option(help="folder of OCI archives for the nodes")] = Path(".local/images"),
    charts: Annotated[Path, typer.Option(help="folder of the charts for the nodes")] = Path("charts"),
    rollout: Annotated[bool, typer.Option("--rollout", help="show versions in waves, on simulated clusters")] = False,
    clusters: Annotated[int, typer.Option(min=20, max=2000, help="number of simulated clusters, for --rollout")] = 200,
    directory: Annotated[Path | None, typer.Option("--dir", help="folder for logs and kubeconfigs")] = None,
) -> None:
    """Show a user's change come into force, or a rollout.

    The change on real API servers; with --rollout how versions go through a
    simulated fleet in waves.
    """
    if rollout:
        if nodes or kcp_kubeconfig is not None or skr_kubeconfig is not None:
            raise typer.BadParameter("--rollout simulates its clusters: give it without --nodes and kubeconfigs")
        _announce(announcement(rollout=True, nodes=False, existing=False, clusters=clusters), output)
        from kyma_demo.rollout.running import run_rollout_demo

        code = run_rollout_demo(clusters=clusters, stay=not once, as_document=output == "json", directory=directory)
        raise typer.Exit(code)
    if nodes and kcp_kubeconfig is not None:
        raise typer.BadParameter("--nodes runs local clusters: give it without kubeconfigs")
    if (kcp_kubeconfig is None) != (skr_kubeconfig is None):
        raise typer.BadParameter("give both --kcp-kubeconfig and --skr-kubeconfig, or neither")
    existing = kcp_kubeconfig is not None
    _announce(announcement(rollout=False, nodes=nodes, existing=existing, clusters=clusters), output)
    from kyma_demo.running import run_demo

    code = run_demo(
        stay=not once,
        as_document=output == "json",
        changes=changes,
        kcp=kcp_kubeconfig,
        skr=skr_kubeconfig,
        directory=directory,
        images_and_charts=(images, charts) if nodes else None,
    )
    raise typer.Exit(code)


def playground() -> None:
    """Run a control plane to try klm on, until Ctrl-C.

    On this machine, without containers: Lifecycle Manager, a Module Manager, a
    cluster that has joined, and one that has not. It prints the next commands.
    State, logs and kubeconfigs are in .local/playground of the current folder;
    each start begins anew.

    \b
    klm playground
    """
    _announce(playground_announcement(), "table")
    from kyma_demo.playground.running import run_playground

    raise typer.Exit(run_playground())


def _announce(text: str, output: str) -> None:
    typer.echo(f"{text}\n", err=output == "json")
    (sys.stderr if output == "json" else sys.stdout).flush()
