"""Commands that have Lifecycle Manager leave something alone, or reconcile it now."""

from functools import partial
from typing import Annotated, Literal

import typer

from kyma_fleet.cli.options import Action, KymaName, complete_kyma, complete_module, on_control_plane

Reason = Annotated[str, typer.Option(help="why, for those who find it later", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask before more than one cluster is changed")]


MaybeKyma = Annotated[str | None, typer.Argument(help="name of the Kyma", autocompletion=complete_kyma)]
OfModule = Annotated[
    str,
    typer.Option("--module", help="this module; without a Kyma in all clusters", autocompletion=complete_module),
]
Everything = Annotated[bool, typer.Option("--all", help="all Kymas and all their modules")]


@on_control_plane
def pause(
    kyma: MaybeKyma = None,
    *,
    reason: Annotated[str, typer.Option(help="why, for those who find it later", show_default=False)],
    module: OfModule = "",
    everything: Everything = False,
    yes: Yes = False,
) -> Action:
    """Leave a cluster, a module or the fleet as it is.

    A paused cluster gets no module installed, upgraded, repaired or removed.
    What its users change in Module CRs is applied when the pause ends. Who,
    when and why is in annotations, an Event, and `klm get kymas --paused`.

    \b
    klm pause demo --reason "incident 4711"
    klm pause demo --module keda --reason "waits for a fix"
    klm pause --module keda --reason "2.1.0 is broken"   in every cluster
    klm pause --all --reason "maintenance of the registry"
    """
    if not reason.strip():
        raise typer.BadParameter("--reason is empty")
    return _action("pause", (kyma, module, everything), reason, yes=yes)


@on_control_plane
def resume(
    kyma: MaybeKyma = None,
    *,
    reason: Reason = "",
    module: OfModule = "",
    everything: Everything = False,
    yes: Yes = False,
) -> Action:
    """End a pause of a cluster, a module or the fleet.

    \b
    klm resume demo                 with all its modules
    klm resume demo --module keda
    klm resume --all --yes
    """
    return _action("resume", (kyma, module, everything), reason, yes=yes)


@on_control_plane
def reconcile(
    kyma: KymaName,
    module: Annotated[str, typer.Argument(help="a module of it", autocompletion=complete_module)] = "",
    *,
    reason: Reason = "",
) -> Action:
    """Reconcile a Kyma, or one of its modules, now.

    \b
    klm reconcile demo
    klm reconcile demo keda --reason "after the fix of its registry"
    """
    return _action("reconcile", (kyma, module, False), reason, yes=True)


@on_control_plane
def continue_(
    kyma: MaybeKyma = None,
    *,
    reason: Reason = "",
    everything: Annotated[bool, typer.Option("--all", help="all Kymas")] = False,
    yes: Yes = False,
) -> Action:
    """Continue held deletions of very many objects at once.

    This deletes in the clusters what was deleted in the control plane before.
    Where the access Secret is gone, the objects stay in the cluster and
    Lifecycle Manager forgets them.

    \b
    klm continue demo --reason "the cluster is decommissioned"
    klm continue --all
    """
    return _action("continue", (kyma, "", everything), reason, yes=yes)


def _action(
    verb: Literal["pause", "resume", "reconcile", "continue"],
    subjects: tuple[str | None, str, bool],
    reason: str,
    *,
    yes: bool,
) -> Action:
    from kyma_fleet import steering
    from kyma_fleet.asking import confirmed

    kyma, module, everything = subjects
    if kyma == "":  # of a variable that is not set: without a name it would be all that have the module
        raise typer.BadParameter("the name of the Kyma is empty")
    if not (kyma or module or everything):
        raise typer.BadParameter("name a Kyma, or --module, or --all")
    if everything and (kyma or module):
        raise typer.BadParameter("--all is everything: give no Kyma and no --module with it")
    meant, confirm = steering.Subjects(kyma or "", module, everything), partial(confirmed, yes=yes)
    return lambda kcp, screen: steering.steer(kcp, screen, verb, meant, reason=reason, confirm=confirm)
