"""`klm rollout`: new versions in waves."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Literal

import typer

from kyma_fleet.cli.options import Action, complete_rollout, on_control_plane

app = typer.Typer(
    name="rollout",
    help="See and steer how new versions go through the fleet in waves.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Name = Annotated[
    str, typer.Argument(help="a module, or a ModuleRollout", autocompletion=complete_rollout, show_default=False)
]
Reason = Annotated[str, typer.Option(help="why, for those who find it later", show_default=False)]
Channel = Annotated[str, typer.Option(help="the channel, where a module has rollouts in several", show_default=False)]


@app.command("list")
@on_control_plane
def list_rollouts(
    *,
    everything: Annotated[bool, typer.Option("--all", help="also those that ended")] = False,
) -> Action:
    """List the latest rollout of each channel."""
    from kyma_fleet import rollouts

    return lambda kcp, screen: rollouts.list_rollouts(kcp, screen, everything=everything)


@app.command()
@on_control_plane
def status(
    name: Name,
    *,
    channel: Channel = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="until it ends or halts")] = False,
) -> Action:
    """Show the waves of a rollout and the clusters that failed.

    The exit code is 1 where it is halted.
    """
    from kyma_fleet import rollouts

    return lambda kcp, screen: rollouts.status(kcp, screen, name, channel, watch=watch)


@app.command()
@on_control_plane
def approve(
    name: Name,
    *,
    wave: Annotated[str, typer.Option(help="the wave; by default the one that waits", show_default=False)] = "",
    reason: Reason = "",
    channel: Channel = "",
) -> Action:
    """Let a wave begin that needs an approval."""
    from kyma_fleet import rollouts

    return lambda kcp, screen: rollouts.steer(kcp, screen, "approve", name, channel, wave=wave, reason=reason)


Verb = Literal["pause", "resume", "halt"]
STEERING: Mapping[Verb, str] = {
    "pause": "Let no further clusters get the version for now. Those under way finish.",
    "resume": "Go on after a pause or a halt. The clusters that failed so far are accepted.",
    "halt": "Stop a rollout that goes wrong.\n\nLike a pause, with a condition and an alert.",
}
"""The commands that need no further options, with their help."""


def steering(verb: Verb) -> Callable[..., Action]:
    """Return a command that steers a rollout."""

    def steer(name: Name, *, reason: Reason = "", channel: Channel = "") -> Action:
        from kyma_fleet import rollouts

        return lambda kcp, screen: rollouts.steer(kcp, screen, verb, name, channel, reason=reason)

    steer.__doc__ = STEERING[verb]
    return steer


for each in STEERING:
    app.command(each)(on_control_plane(steering(each)))


@app.command()
@on_control_plane
def undo(
    name: Name,
    *,
    now: Annotated[bool, typer.Option("--now", help="all clusters at once, without waves and limits")] = False,
    reason: Reason = "",
    channel: Channel = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> Action:
    """Return the clusters to the version before.

    Wave by wave, in reverse. What is taken back already stays so.

    The ModuleReleaseMeta has to allow it:
    operator.kyma-project.io/allow-downgrade=true
    """
    from kyma_fleet import rollouts
    from kyma_fleet.asking import confirmed

    confirm = partial(confirmed, yes=yes)
    return lambda kcp, screen: rollouts.undo(kcp, screen, name, channel, at_once=now, confirm=confirm, reason=reason)
