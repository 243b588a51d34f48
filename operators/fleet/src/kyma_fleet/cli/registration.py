"""Commands by which a cluster gets into the fleet, and out of it."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kyma_fleet.cli.options import Kubeconfig, complete_kyma, run, usage_errors

KcpContext = Annotated[
    str | None, typer.Option(help="context of the kubeconfig of the control plane", show_default=False)
]
OfCluster = "of an administrator of the cluster that {}"


def join(
    name: Annotated[str, typer.Argument(help="name of its Kyma in the control plane", show_default=False)],
    *,
    kubeconfig: Annotated[Path, typer.Option(help=OfCluster.format("joins"), exists=True, dir_okay=False)],
    context: Annotated[str | None, typer.Option(help="context of that kubeconfig", show_default=False)] = None,
    server: Annotated[
        str, typer.Option(help="its API server as Lifecycle Manager reaches it, if not as in the kubeconfig")
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option(metavar="<key=value>", help="label of the Kyma; may be repeated")
    ] = None,
    channel: Annotated[str, typer.Option(help="channel of its modules")] = "regular",
    module: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="module that it starts with; may be repeated")
    ] = None,
    role: Annotated[
        list[Path] | None,
        typer.Option(metavar="<file>", help="with the ClusterRole of a module; may be repeated", exists=True),
    ] = None,
    any_module: Annotated[
        bool, typer.Option("--any-module", help="let Lifecycle Manager install any module: it gets all rights")
    ] = False,
    lifetime: Annotated[
        str, typer.Option("--token-lifetime", help="how long a token lasts; it is renewed after two thirds of that")
    ] = "72h",
    timeout: Annotated[str, typer.Option(help="how long to wait until Lifecycle Manager has reached it")] = "2m",
    kcp_kubeconfig: Kubeconfig = None,
    kcp_context: KcpContext = None,
) -> None:
    """Let a cluster join the fleet, or renew its credentials.

    In the cluster, Lifecycle Manager gets a ServiceAccount with the rights that
    it needs and a token that it renews itself; in the control plane, the access
    Secret and the Kyma are created.

    \b
    klm join demo --kubeconfig skr.yaml --any-module
    klm join demo --kubeconfig skr.yaml --role keda-role.yaml --module keda
    klm join demo --kubeconfig skr.yaml --label kyma-project.io/region=eu
    klm join demo --kubeconfig skr.yaml          again: with new credentials
    """
    from kyma_fleet.registration import join as command
    from kyma_fleet.registration.join import Joining, checked_lifetime, checked_name, labels_of
    from lifecycle_manager.contract.durations import parse_duration

    with usage_errors():
        joining = Joining(
            name=checked_name(name),
            kubeconfig=kubeconfig,
            context=context,
            server=server,
            labels=labels_of(label or ()),
            channel=channel,
            modules=tuple(module or ()),
            roles=tuple(role or ()),
            any_module=any_module,
            lifetime=checked_lifetime(parse_duration(lifetime)),
            timeout=parse_duration(timeout),
        )
    run(kcp_kubeconfig, kcp_context, "table", lambda kcp, screen: command.join(kcp, screen, joining), options="--kcp-")


def leave(
    name: Annotated[str, typer.Argument(help="name of its Kyma", autocompletion=complete_kyma, show_default=False)],
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help=OfCluster.format("leaves") + ", to remove the ServiceAccount there",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    context: Annotated[str | None, typer.Option(help="context of that kubeconfig", show_default=False)] = None,
    keep_modules: Annotated[
        bool, typer.Option("--keep-modules", help="leave all modules in the cluster as they are")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    timeout: Annotated[str, typer.Option(help="how long to wait until the Kyma is deleted")] = "10m",
    kcp_kubeconfig: Kubeconfig = None,
    kcp_context: KcpContext = None,
) -> None:
    """Take a cluster out of the fleet.

    Its modules, its Kyma, its access Secret, and the ServiceAccount are removed.

    The Kyma waits until everything is removed from the cluster; what it waits for
    is printed. Run it again to wait on. With --keep-modules the access is taken
    away first, so that nothing is removed: also for a cluster that is gone.

    \b
    klm leave demo --kubeconfig skr.yaml
    klm leave demo --keep-modules --kubeconfig skr.yaml
    klm leave demo --yes                          the ServiceAccount stays
    """
    from kyma_fleet.asking import confirmed
    from kyma_fleet.registration import leave as command
    from lifecycle_manager.contract.durations import parse_duration

    with usage_errors():
        leaving = command.Leaving(name, kubeconfig, context, keep_modules, parse_duration(timeout))
    confirm = partial(confirmed, yes=yes)
    run(
        kcp_kubeconfig,
        kcp_context,
        "table",
        lambda kcp, screen: command.leave(kcp, screen, leaving, confirm),
        options="--kcp-",
    )
