"""The command `klm demo`."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    once: Annotated[bool, typer.Option("--once", help="stop after the last step")] = False,
    json: Annotated[bool, typer.Option("--json", help="print one JSON document only")] = False,
    changes: Annotated[int, typer.Option(min=1, max=1000, help="number of changes to measure")] = 50,
    kcp_kubeconfig: Annotated[Path | None, typer.Option(help="use this control plane, not a local one")] = None,
    skr_kubeconfig: Annotated[Path | None, typer.Option(help="use this user cluster, not a local one")] = None,
    directory: Annotated[Path | None, typer.Option("--dir", help="folder for logs and kubeconfigs")] = None,
) -> None:
    """Show a user's change come into force, on real API servers."""
    if (kcp_kubeconfig is None) != (skr_kubeconfig is None):
        raise typer.BadParameter("give both --kcp-kubeconfig and --skr-kubeconfig, or neither")
    from kyma_demo.running import run_demo

    code = run_demo(
        stay=not once,
        as_document=json,
        changes=changes,
        kcp=kcp_kubeconfig,
        skr=skr_kubeconfig,
        directory=directory,
    )
    raise typer.Exit(code)
