"""The command that takes a control plane over from the former version."""

from typing import Annotated

import typer

from kyma_fleet.cli.options import Context, Kubeconfig, LeaseNamespace, one_of


def adopt(
    *,
    check: Annotated[bool, typer.Option("--check", help="report what a takeover finds and changes; write nothing")],
    sample: Annotated[
        int, typer.Option(min=0, max=100, help="with --check: read so many clusters, too, chosen at random")
    ] = 0,
    output: Annotated[str, typer.Option("--output", "-o", help="with --check: format: table, json")] = "table",
    ca_namespace: Annotated[
        str, typer.Option(help="namespace of the CA of the former version (--self-signed-cert-issuer-namespace)")
    ] = "istio-system",
    lease_namespace: LeaseNamespace = "kcp-system-leases",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Take a control plane over from the Lifecycle Manager in Go.

    It needs the rights of an administrator of the control plane. The exit code
    of --check is 1 where something is in the way.

    \b
    klm adopt --check              what there is, and what becomes of it
    klm adopt --check --sample 5   and what changes in five clusters
    klm adopt --check -o json
    """
    from kyma_fleet.adoption import command  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    form = one_of(("table", "json"), "format", output)
    screen = Screen.of_process()
    run(
        Target(kubeconfig, context),
        lambda kcp: command.check(
            kcp,
            screen,
            sample=sample,
            lease_namespace=lease_namespace,
            ca_namespace=ca_namespace,
            as_document=form == "json",
        ),
    )
