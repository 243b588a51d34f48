"""The command `klm`: everything on the control-plane side, and for people. Each command imports what it needs late."""

import errno
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

Command = TyperCommand | TyperGroup
HELP_OPTIONS = ["-h", "--help"]
SECTIONS = {
    "See the fleet": ("status", "get", "explain", "events", "trace", "ui"),
    "Steer the fleet": ("join", "leave", "pause", "resume", "reconcile", "continue"),
    "Releases": ("preview", "diff", "rollout", "module"),
    "The control plane": ("check", "version", "bundle", "run", "debug", "crds", "images", "adopt"),
    "On this machine": ("playground", "demo", "local"),
}
"""How `klm --help` groups the commands. Others, such as those of further distributions, come last."""


class Commands(Mapping[str, Command]):
    """The commands of `klm`, and those that other distributions bring (entry points, group `klm.commands`).

    One of theirs is imported when it is called or listed, so its module imports nothing but what declares it.
    """

    def __init__(self, own: Mapping[str, Command]) -> None:
        self._own = own

    @cached_property
    def _brought(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in sorted(entry_points(group="klm.commands"))}

    def __getitem__(self, name: str) -> Command:
        if name in self._own:
            return self._own[name]
        loaded = self._brought[name].load()
        if not isinstance(loaded, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name=name)(loaded)
            loaded = alone
        return cast("Command", get_command(loaded))

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *self._brought))

    def __len__(self) -> int:
        return len(self._own) + len(self._brought)


class KlmGroup(TyperGroup):
    """`klm` itself."""

    def __init__(self, *, commands: Mapping[str, Command], **attributes: Any) -> None:
        super().__init__(commands=cast("Any", Commands(commands)), **attributes)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        leave_absent_values(self)
        if extra.get("resilient_parsing"):
            leave_values(self)
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            extra["color"] = False
        with readable_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with readable_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in groups."""
        listed = {name for names in SECTIONS.values() for name in names}
        others = tuple(each for each in self.list_commands(ctx) if each not in listed)
        for title, names in {**SECTIONS, "Other commands": others}.items():
            found = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            width = formatter.width - 6 - max(map(len, self.commands))
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in found])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, TyperGroup):
            leave_absent_values(command)
        if ctx.resilient_parsing and command is not None:
            leave_values(command)
        return name, command, rest


@contextmanager
def readable_errors() -> Iterator[None]:
    """Have an error of the usage take as many lines as it needs on a terminal, as all other errors do."""
    try:
        yield
    except typer.TyperException as error:
        error.message = error.message.removeprefix("Value error, ")  # of the library that reads values
        if not sys.stderr.isatty():
            raise
        text, width = io.StringIO(), shutil.get_terminal_size((80, 24)).columns
        cast("Any", error).show(text)
        for line in text.getvalue().splitlines():
            typer.echo(textwrap.fill(line, width, break_on_hyphens=False), err=True)
        raise typer.Exit(error.exit_code) from None


class Optional(TyperOption):
    """An option of a group: where it is not given, what would convert its value is not imported."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        return None if value is None else super().process_value(ctx, value)


class Unread(TyperOption):
    """An option of a command that is completed: its value is not converted, and what would do so is not imported."""

    def process_value(self, _ctx: Any, value: Any) -> Any:
        return value


class UnreadArgument(TyperArgument):
    """An argument of a command that is completed."""

    def process_value(self, _ctx: Any, value: Any) -> Any:
        return value


def leave_absent_values(group: TyperGroup) -> None:
    """Have a group convert what is given to itself alone: mostly nothing is."""
    for each in (*group.params, _help_option(group)):
        cast("Any", each).__class__ = Optional


def leave_values(command: Any) -> None:
    """Have a command, and those below it, convert no values. It is completed, and not run in this process."""
    for each in (*command.params, _help_option(command)):
        each.__class__ = UnreadArgument if isinstance(each, TyperArgument) else Unread
    if isinstance(command, TyperGroup) and not isinstance(command, KlmGroup):
        for below in command.commands.values():
            leave_values(below)


def _help_option(command: Any) -> Any:
    """Return the option that prints the help, as it is kept for the call to come."""
    return command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))


class RunCommand(TyperCommand):
    """`klm run`, whose options are those of all domains: they are imported when it is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        from lifecycle_manager.command_line import run_command

        command, kept = run_command(args, _start)
        if extra.get("resilient_parsing"):
            leave_values(command)
        return command.make_context(info_name, kept, parent, **extra)


def _start(given: Mapping[str, object], warnings: Sequence[str]) -> int:
    from lifecycle_manager.starting import start  # its imports take longer than printing the help

    return start(given, warnings)


app = typer.Typer(
    name="klm",
    cls=KlmGroup,
    help="Lifecycle Manager for Kyma: keeps the modules of user clusters as their users want them.",
    no_args_is_help=True,
    context_settings={"help_option_names": HELP_OPTIONS},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # a service logs plain tracebacks, and locals may hold credentials
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"klm {version('kyma-lifecycle-manager')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Hold the options of `klm` itself."""


@app.command(cls=RunCommand)
def run() -> None:
    """Run the Lifecycle Manager."""
    raise AssertionError("RunCommand calls that of lifecycle_manager.command_line")


@app.command()
def debug(
    command: Annotated[str, typer.Argument(help="tasks, stacks, queues, loop, or log-level")],
    argument: Annotated[str, typer.Argument(help="the new level, for log-level", show_default=False)] = "",
    *,
    socket: Annotated[
        Path | None, typer.Option(help="its debug socket; default: that of this container's environment")
    ] = None,
) -> None:
    """Ask a running program what it does, or set its log level.

    It answers at the socket that `klm run --debug-socket` names.
    """
    from kyma_diagnostics.debug_client import DebugFailed, ask, socket_of_environment

    try:
        typer.echo(ask(socket or socket_of_environment(), f"{command} {argument}".strip()), nl=False)
    except DebugFailed as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(2) from None


@app.command()
def crds(
    kubeconfig: Annotated[Path | None, typer.Option(help="apply them to this cluster instead of printing them")] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="write them into this folder, a file each, instead of printing them")
    ] = None,
) -> None:
    """Print the CRDs as YAML, write them into files, or apply them."""
    import asyncio

    from kube_runtime import KubeError
    from lifecycle_manager.process.crd_installation import crds_as_yaml, install_crds, write_crds

    try:
        for file in write_crds(directory) if directory is not None else ():
            typer.echo(file)
        for name in asyncio.run(install_crds(kubeconfig)) if kubeconfig is not None else ():
            typer.echo(name)
    except (KubeError, OSError) as error:
        advice = "use a kubeconfig of an administrator, of a cluster within reach"
        typer.secho(f"klm: {error}{f'; {advice}' if isinstance(error, KubeError) else ''}", err=True, fg="red")
        raise typer.Exit(2) from None
    if directory is None and kubeconfig is None:
        typer.echo(crds_as_yaml(), nl=False)


@app.command("help")
def help_(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND...", help="such as rollout undo", show_default=False)
    ] = None,
) -> None:
    """Print the help of a command."""
    context.find_root().command.main([*(command or ()), "--help"], prog_name="klm")


def main() -> None:
    """Run the command line. What is written to a closed stdout or stderr is left out, and a closed stdin is empty."""
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115 - until the process ends
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in {errno.EPIPE, errno.ENOSPC}:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = error.__context__.code if isinstance(error.__context__, SystemExit) else 0
        if error.errno == errno.ENOSPC and not code:  # of EPIPE: whoever reads the output has enough
            typer.secho(f"klm: {error}", err=True, fg="red")
            code = 2
        raise SystemExit(code) from None
