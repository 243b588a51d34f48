"""The command line of `klm run`: an option for each of the settings, in the style of the other commands."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import structlog
import typer
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from typer.main import get_command

from kube_runtime import KubeconfigInvalid
from kyma_certs import FipsUnavailable, fips_mode
from kyma_diagnostics import TracingUnavailable, tracing
from kyma_diagnostics.debug_server import DebugSocketUnusable
from lifecycle_manager.app import run as run_lifecycle_manager
from lifecycle_manager.contract.options import Duration, OptionField, Seconds, fields_of
from lifecycle_manager.page import PageMissing
from lifecycle_manager.process.logs import configure_logs
from lifecycle_manager.process.settings import ProcessSettings
from lifecycle_manager.replicas import ReplicaSettings
from lifecycle_manager.settings import GROUPS, PREFIX, Settings, SettingsInvalid, text_of
from lifecycle_manager.takeover.flags import adapted

DURATIONS = (Duration, Seconds)


def run_command(arguments: list[str]) -> tuple[Callable[..., None], list[str]]:
    """Return the command, and the arguments for it: those of the former version become those of this one."""
    kept, warnings = adapted(arguments)

    def run(**given: object) -> None:
        """Run the Lifecycle Manager."""
        try:
            settings = Settings(present(given), environment=os.environ)
            process = settings[ProcessSettings]
            fips_mode(only=process.fips_only)
        except (SettingsInvalid, FipsUnavailable) as error:
            typer.secho(str(error), err=True, fg="red")
            raise typer.Exit(2) from None
        configure_logs(process.log_level, process.log_format)
        for warning in warnings:
            structlog.get_logger("klm").warning(warning)
        try:
            with tracing(process.tracing(settings[ReplicaSettings].given_name)) as tracer:
                uvloop.run(run_lifecycle_manager(settings, tracer))
        except (KubeconfigInvalid, TracingUnavailable, DebugSocketUnusable, PageMissing) as error:
            typer.secho(str(error), err=True, fg="red")
            raise typer.Exit(1) from None

    return with_options(run), kept


def settings_in(arguments: list[str]) -> Settings:
    """Return the settings of a command line. Raises SettingsInvalid."""
    command = typer.Typer(add_completion=False)
    command.command()(with_options(lambda **_: None))
    context = get_command(command).make_context("klm run", adapted(arguments)[0])
    return Settings(present(context.params))


def present(given: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None and name != "help"}


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a function the signature from which typer makes an option for each of the settings."""
    parameters = [*_parameters(), _help_parameter()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def grouped() -> dict[str, list[OptionField]]:
    """Return the options by the titles of their groups; a shared one is in the first."""
    found: set[str] = set()
    groups: dict[str, list[OptionField]] = {}
    for title, kinds in GROUPS.items():
        for each in (each for kind in kinds for each in fields_of(kind)):
            if each.option.name not in found:
                found.add(each.option.name)
                groups.setdefault(title, []).append(each)
    return groups


def _parameters() -> list[inspect.Parameter]:
    return [_parameter(each, title) for title, fields in grouped().items() for each in fields]


def _parameter(field: OptionField, title: str) -> inspect.Parameter:
    name, is_switch = field.option.name, field.type is bool
    is_list = isinstance(field.default, tuple) and not _is_address(field.default)
    kind: Any = bool if is_switch else list[str] if is_list else str
    declared = typer.Option(
        f"--{name}/--no-{name}" if is_switch else f"--{name}", help=field.option.help, rich_help_panel=title
    )
    annotation = Annotated[kind | None, declared]
    return inspect.Parameter(
        name.replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _help_parameter() -> inspect.Parameter:
    declared = typer.Option("--help", callback=_print_help, is_eager=True, help="Show this message and exit.")
    return inspect.Parameter(
        "help", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, declared]
    )


def _print_help(asked: bool) -> None:
    """Print the options below each other: their names are too long for a table of 80 columns."""
    if not asked:
        return
    console = Console(highlight=False, soft_wrap=False)
    console.print(
        "Usage: klm run [OPTIONS]\n\nRun the Lifecycle Manager. Each option is also read from the environment:"
    )
    console.print(f"{PREFIX} and its name in capitals, such as {PREFIX}LOG_LEVEL.")
    for title, fields in grouped().items():
        console.print(f"\n[bold]{title}[/bold]")
        for each in fields:
            default = text_of(each)
            console.print(f"  [cyan]--{each.option.name}[/cyan] {escape(_metavar(each.type))}")
            text = f"{each.option.help} (default: {default})" if default else each.option.help
            console.print(Padding(escape(text), (0, 0, 0, 6)))
    raise typer.Exit


def _is_address(default: tuple[object, ...]) -> bool:
    return len(default) == 2 and isinstance(default[1], int)


def _metavar(kind: Any) -> str:
    if kind is bool:
        return ""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return "DURATION" if kind in DURATIONS else "VALUE"
