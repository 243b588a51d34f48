"""Commands that only read: what there is, how the fleet is, and why a cluster is as it is."""

from pathlib import Path
from typing import Annotated

import typer

from kyma_fleet.cli.options import (
    Action,
    KymaName,
    LeaseNamespace,
    complete_kyma,
    complete_module,
    complete_name,
    on_control_plane,
    one_of,
    unknown,
    usage_errors,
)
from kyma_fleet.listing.names import SHORT_NAMES

KIND_NAMES = (*SHORT_NAMES,)
STATES = ("Ready", "Processing", "Warning", "Error", "Deleting", "Unmanaged")


@on_control_plane
def get(
    kind: Annotated[
        str,
        typer.Argument(
            help=f"what to list: {', '.join(KIND_NAMES)}",
            autocompletion=lambda incomplete: [each for each in KIND_NAMES if each.startswith(incomplete)],
            show_default=False,
        ),
    ],
    name: Annotated[
        str, typer.Argument(help="one of them; of modules and releases a module", autocompletion=complete_name)
    ] = "",
    *,
    state: Annotated[
        str,
        typer.Option(
            help=f"in this state: {', '.join(STATES)}",
            autocompletion=lambda incomplete: [each for each in STATES if each.startswith(incomplete)],
        ),
    ] = "",
    reason: Annotated[str, typer.Option(help="with this reason, such as ModuleError")] = "",
    kyma: Annotated[str, typer.Option(help="of this Kyma", autocompletion=complete_kyma)] = "",
    module: Annotated[str, typer.Option(help="with or of this module", autocompletion=complete_module)] = "",
    version: Annotated[str, typer.Option(help="with a module in this version")] = "",
    channel: Annotated[str, typer.Option(help="in this channel")] = "",
    region: Annotated[str, typer.Option(help="in this region")] = "",
    paused: Annotated[bool, typer.Option("--paused", help="paused ones, with who did it, when and why")] = False,
    labels: Annotated[str, typer.Option("--selector", "-l", help="label selector, as of kubectl")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="show each change until Ctrl-C")] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="namespace, where it is another one")] = "",
) -> Action:
    """List Kymas, modules, releases, and what belongs to them.

    \b
    klm get kymas --state Error                  which clusters are broken
    klm get kymas --reason SKRUnreachable        for one reason
    klm get kymas --module keda --version 2.1.0  who has this version
    klm get kymas --paused                       who paused what, and why
    klm get modules keda --state Warning         a line for each cluster
    klm get manifests --kyma demo -o wide        with messages
    klm get kymas -o name | wc -l                for scripts; also json and yaml
    klm get kymas --region eu-central-1 --watch  follow changes
    """
    from kyma_fleet.listing.command import check_filters, list_kind
    from kyma_fleet.listing.kinds import kind_named
    from kyma_fleet.listing.selection import Selection

    found = kind_named(kind)
    if found is None:
        raise unknown(KIND_NAMES, "kind", kind)
    selection = Selection(
        name=name,
        kyma=kyma,
        state=one_of(STATES, "state", state),
        reason=reason,
        module=module,
        version=version,
        channel=channel,
        region=region,
        paused=paused,
        labels=labels,
    )
    with usage_errors():
        check_filters(found, selection)
    return lambda kcp, screen: list_kind(kcp, screen, found, selection, namespace, watch=watch)


@on_control_plane
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="show it again and again until Ctrl-C")] = False,
    lease_namespace: LeaseNamespace = "kcp-system-leases",
) -> Action:
    """Show how the fleet is.

    It shows states, modules and versions, rollouts, the worst clusters, silent
    Watchers and replicas. The exit code is 1 where something is wrong, 0 where
    nothing is, and 2 where it can't be read.

    \b
    klm status                     once
    klm status --watch             refreshed in place
    klm status || alert-somebody   in a script
    """
    from kyma_fleet.status import status as command

    return lambda kcp, screen: command(kcp, screen, lease_namespace, watch=watch)


@on_control_plane
def explain(
    kyma: KymaName,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MODULE|OBJECT",
            help="a module, or an object in the cluster as kind/name or kind/namespace/name",
            autocompletion=complete_module,
        ),
    ] = "",
    *,
    rollout_max_delay: Annotated[
        str, typer.Option(help="--module-upgrade-rollout-max-delay of klm run, for the time of a rollout's turn")
    ] = "5m",
    maintenance_policy: Annotated[
        Path | None,
        typer.Option(help="--maintenance-policy of klm run, for windows that are not reported yet", show_default=False),
    ] = None,
) -> Action:
    """Explain why a cluster, a module or an object is as it is.

    It shows the chain of causes, the last Events, and what to do. Nothing is
    written. The rules are those by which Lifecycle Manager decides. The exit
    code is 1 where something is not in order.

    \b
    klm explain demo                               all of a cluster
    klm explain demo keda                          one module
    klm explain demo deployment/keda-operator      an object, and its owner
    klm explain demo configmap/kyma-system/limits  the same, with its namespace
    """
    from kyma_fleet.explanation import command

    with usage_errors():
        rules = command.rules_of(rollout_max_delay, maintenance_policy)
    return lambda kcp, screen: command.explain(kcp, screen, kyma, subject, rules)


@on_control_plane
def events(kyma: KymaName) -> Action:
    """List the Events of a Kyma and of all its parts.

    Its parts are Manifests, ModuleConfigs and SyncResources. The newest Event is the last.

    \b
    klm events demo
    klm events demo | grep Warning
    """
    from kyma_fleet.explanation import command

    return lambda kcp, screen: command.events(kcp, screen, kyma)


@on_control_plane
def trace(
    kyma: KymaName,
    module: Annotated[str, typer.Argument(help="a module of it", autocompletion=complete_module)] = "",
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="everything that is recorded, not what follows the last pause alone")
    ] = False,
) -> Action:
    """Draw a timeline of the last writes for a Kyma or a module.

    It is read from the objects themselves, which record the last write of each
    program to the second, and from Events.

    \b
    klm trace demo keda    the last writes for a module
    klm trace demo --all   everything that is recorded
    """
    from kyma_fleet import timeline

    return lambda kcp, screen: timeline.trace(kcp, screen, kyma, module, everything=everything)
