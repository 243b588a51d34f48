"""Commands about the control plane itself."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kyma_fleet.cli.options import (
    Action,
    Context,
    Kubeconfig,
    LeaseNamespace,
    Output,
    complete_kyma,
    on_control_plane,
    run,
    usage_errors,
)


@on_control_plane
def check(
    before_installation: Annotated[
        bool, typer.Option("--pre", help="check what an installation needs, before there is one")
    ] = False,
    lease_namespace: LeaseNamespace = "kcp-system-leases",
) -> Action:
    """Check the control plane, or a cluster before an installation.

    It checks versions, clocks, rights, CRDs, policies, webhooks, certificates,
    replicas and the access to clusters. What you may not read is not checked,
    and said so. The exit code is 1 where a check fails.

    \b
    klm check          an installation
    klm check --pre    a cluster before the installation
    """
    from kyma_fleet.checking import command

    return lambda kcp, screen: command.check(kcp, screen, lease_namespace, before_installation=before_installation)


def version(output: Output = "table", kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Print the versions of klm and of the control plane.

    That of klm also where the control plane can't be read: then the exit code is 2.

    \b
    klm version
    klm --version    without asking the control plane
    """
    from kyma_fleet.checking import command

    run(kubeconfig, context, output, command.print_version, otherwise=command.print_own_version)


@on_control_plane
def bundle(
    kyma: Annotated[
        str, typer.Argument(help="one Kyma with its parts; by default all", autocompletion=complete_kyma)
    ] = "",
    *,
    file: Annotated[
        Path | None, typer.Option(help="archive to write; by default klm-bundle-TIME.tar.gz", show_default=False)
    ] = None,
    max_size: Annotated[int, typer.Option(min=1, max=1000, help="bound, in MiB before compression")] = 50,
    lease_namespace: LeaseNamespace = "kcp-system-leases",
) -> Action:
    """Write an archive for support, without secrets.

    It has the resources with their conditions, Events, the answers of klm
    check, status and version, and logs and metrics where you may read them.
    Secrets, data of modules, values of environment variables and foreign
    annotations are left out. What is missing is said.

    \b
    klm bundle
    klm bundle demo --file demo.tar.gz
    """
    from kyma_fleet.bundle import command

    to = file or Path(f"klm-bundle-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    limit = max_size * 1024 * 1024
    return lambda kcp, screen: command.bundle(
        kcp, screen, to, kyma=kyma, max_bytes=limit, lease_namespace=lease_namespace
    )


def images(
    values: Annotated[
        list[Path], typer.Option("--values", "-f", help="values of the chart lifecycle-manager; later files win")
    ] = [],  # noqa: B006 - typer copies it
    manager_values: Annotated[
        list[Path], typer.Option(help="values of the chart module-manager, a file for each module")
    ] = [],  # noqa: B006 - typer copies it
    registry: Annotated[str, typer.Option(help="registry of the images where the values name none")] = "",
    output: Output = "table",
) -> None:
    """List the images of an installation, as its charts name them.

    Without values these are the defaults. Modules bring images of their own.

    \b
    klm images --registry ghcr.io/OWNER
    klm images -f lifecycle-manager.yaml --manager-values telemetry.yaml
    """
    from kyma_fleet.documents import print_document
    from kyma_fleet.images import images_of
    from kyma_fleet.screen import Screen

    with usage_errors():
        found = images_of(values, manager_values, registry=registry)
    print_document(found, Screen.of_process(output))
