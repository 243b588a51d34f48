"""Commands about the control plane itself."""

from typing import Annotated

import typer

from kyma_fleet.cli.options import Context, Kubeconfig, LeaseNamespace


def check(
    before_installation: Annotated[
        bool, typer.Option("--pre", help="check what an installation needs, before there is one")
    ] = False,
    lease_namespace: LeaseNamespace = "kcp-system-leases",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check the control plane, or a cluster before an installation.

    It checks versions, clocks, rights, CRDs, policies, webhooks, certificates,
    replicas and the access to clusters. What you may not read is not checked,
    and said so. The exit code is 1 where a check fails.

    \b
    klm check          an installation
    klm check --pre    a cluster before the installation
    """
    from kyma_fleet.checking import command
    from kyma_fleet.running import Target, run
    from kyma_fleet.screen import Screen

    screen = Screen.of_process()
    run(
        Target(kubeconfig, context),
        lambda kcp: command.check(kcp, screen, lease_namespace, before_installation=before_installation),
    )


def version(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Print the versions of klm and of the control plane.

    \b
    klm version
    klm --version    without asking the control plane
    """
    from kyma_fleet.checking import command
    from kyma_fleet.running import Target, run
    from kyma_fleet.screen import Screen

    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.print_version(kcp, screen))
