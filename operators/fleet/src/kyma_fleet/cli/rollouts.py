"""`klm rollout`: new versions in waves."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from kyma_fleet.cli.options import Context, Kubeconfig, Output, run

app = typer.Typer(
    name="rollout",
    help="See and steer how new versions go through the fleet in waves.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Name = Annotated[str, typer.Argument(help="a module, or a ModuleRollout", show_default=False)]
Reason = Annotated[str, typer.Option(help="why, for those who find it later", show_default=False)]
Channel = Annotated[str, typer.Option(help="the channel, where a module has rollouts in several", show_default=False)]


@app.command("list")
def list_rollouts(
    *,
    everything: Annotated[bool, typer.Option("--all", help="also those that ended")] = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the latest rollout of each channel."""
    from kyma_fleet import rollouts

    run(kubeconfig, context, output, lambda kcp, screen: rollouts.list_rollouts(kcp, screen, everything=everything))


@app.command()
def status(
    name: Name,
    *,
    channel: Channel = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="until it ends or halts")] = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the waves of a rollout and the clusters that failed.

    The exit code is 1 where it is halted.
    """
    from kyma_fleet import rollouts

    run(kubeconfig, context, output, lambda kcp, screen: rollouts.status(kcp, screen, name, channel, watch=watch))


@app.command()
def approve(
    name: Name,
    *,
    wave: Annotated[str, typer.Option(help="the wave; by default the one that waits", show_default=False)] = "",
    reason: Reason = "",
    channel: Channel = "",
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Let a wave begin that needs an approval."""
    _steer("approve", name, channel, (kubeconfig, context), output=output, wave=wave, reason=reason)


@app.command()
def pause(
    name: Name,
    *,
    reason: Reason = "",
    channel: Channel = "",
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Let no further clusters get the version for now. Those under way finish."""
    _steer("pause", name, channel, (kubeconfig, context), output=output, reason=reason)


@app.command()
def resume(
    name: Name,
    *,
    reason: Reason = "",
    channel: Channel = "",
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Go on after a pause or a halt. The clusters that failed so far are accepted."""
    _steer("resume", name, channel, (kubeconfig, context), output=output, reason=reason)


@app.command()
def halt(
    name: Name,
    *,
    reason: Reason = "",
    channel: Channel = "",
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stop a rollout that goes wrong.

    Like a pause, with a condition and an alert.
    """
    _steer("halt", name, channel, (kubeconfig, context), output=output, reason=reason)


@app.command()
def undo(
    name: Name,
    *,
    now: Annotated[bool, typer.Option("--now", help="all clusters at once, without waves and limits")] = False,
    reason: Reason = "",
    channel: Channel = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Return the clusters to the version before.

    Wave by wave, in reverse. What is taken back already stays so.

    The ModuleReleaseMeta has to allow it:
    operator.kyma-project.io/allow-downgrade=true
    """
    from kyma_fleet import rollouts
    from kyma_fleet.asking import confirmed

    run(
        kubeconfig,
        context,
        output,
        lambda kcp, screen: rollouts.undo(
            kcp, screen, name, channel, at_once=now, confirm=partial(confirmed, yes=yes), reason=reason
        ),
    )


def _steer(
    verb: Literal["approve", "pause", "resume", "halt"],
    name: str,
    channel: str,
    target: tuple[Path | None, str | None],
    *,
    output: str,
    reason: str,
    wave: str = "",
) -> None:
    from kyma_fleet import rollouts

    run(
        *target,
        output,
        lambda kcp, screen: rollouts.steer(kcp, screen, verb, name, channel, wave=wave, reason=reason),
    )
