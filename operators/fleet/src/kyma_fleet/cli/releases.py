"""Commands that compare: what a release would change, and what a cluster has."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from kyma_fleet.cli.options import OUTPUT, Action, KymaName, complete_module, on_control_plane, usage_errors

MarkdownOutput = Annotated[Literal["table", "wide", "json", "yaml", "name", "markdown"], OUTPUT]
SyncNamespace = Annotated[
    str, typer.Option("--sync-namespace", help="--sync-namespace of klm run, for objects that name none")
]


@partial(on_control_plane, output=MarkdownOutput)
def preview(
    module: Annotated[str, typer.Argument(help="the module", autocompletion=complete_module, show_default=False)],
    version: Annotated[str, typer.Argument(help="its version; the ModuleTemplate must exist", show_default=False)],
    *,
    channel: Annotated[str, typer.Option(help="the channel that would get it; by default all of the module")] = "",
    sample: Annotated[
        int, typer.Option(min=0, max=100, help="compare the objects in so many clusters, too (needs klm-skr-access)")
    ] = 0,
    rollout_max_delay: Annotated[str, typer.Option(help="--module-upgrade-rollout-max-delay of klm run")] = "5m",
    max_changed_clusters: Annotated[str, typer.Option(help="--max-changed-clusters of klm run")] = "20%",
    maintenance_policy: Annotated[
        Path | None, typer.Option(help="--maintenance-policy of klm run", show_default=False)
    ] = None,
    namespace: SyncNamespace = "kyma-system",
) -> Action:
    """Show what a release would change.

    It lists which Kymas would get it and when, and which are held back and why.
    Nothing is written. The rules are those by which Lifecycle Manager decides.

    \b
    klm preview keda 2.1.0 --channel fast
    klm preview keda 2.1.0 --sample 3                the objects in three clusters
    klm preview keda 2.1.0 -o markdown > review.md
    """
    from kyma_fleet import preview as command
    from kyma_fleet.explanation.command import rules_of
    from kyma_fleet.release_waves import Release

    with usage_errors():
        rules = rules_of(rollout_max_delay, maintenance_policy)
        if not re.fullmatch(r"[0-9]{1,9}%?", max_changed_clusters):
            raise ValueError(f"invalid --max-changed-clusters {max_changed_clusters!r}: expected such as 20% or 500")
    release = Release(module, version, channel)
    return lambda kcp, screen: command.preview(
        kcp, screen, release, rules, sample=sample, namespace=namespace, max_changed_clusters=max_changed_clusters
    )


@on_control_plane
def diff(
    kyma: KymaName,
    module: Annotated[str, typer.Argument(help="a module of it", autocompletion=complete_module, show_default=False)],
    *,
    namespace: SyncNamespace = "kyma-system",
) -> Action:
    """Show what Lifecycle Manager would change in a cluster.

    The objects of a module as wanted are compared with those that are there.

    It is a dry run on the cluster's API server, with the access Secret; nothing
    is changed. Values of Secrets are not shown. The exit code is 1 where
    something differs, 0 where nothing does, and 2 where it can't be compared.

    \b
    klm diff demo keda
    klm diff demo keda || klm reconcile demo keda
    """
    from kyma_fleet import comparison

    return lambda kcp, screen: comparison.diff(kcp, screen, kyma, module, namespace)
