"""The command `klm ui`. It imports what it needs late, so that `klm` starts quickly."""

from typing import Annotated

import typer

from kyma_fleet.cli.options import Context, Kubeconfig


def ui(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on 127.0.0.1; 0 for any free one")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="print the address alone")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Open the fleet page, with your own rights.

    This process serves it until Ctrl-C, on 127.0.0.1 alone, and shows what
    your kubeconfig may list. The address that is printed signs in once; no
    token leaves this process.

    \b
    klm ui
    klm ui --no-browser --port 8090
    """
    from kyma_fleet.running import run
    from kyma_fleet_page.own_page import serve

    run(kubeconfig, context, lambda kcp: serve(kcp, port, open_browser=not no_browser))
