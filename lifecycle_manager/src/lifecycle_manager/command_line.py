"""The command line of `klm run`: an option for each of the settings, in the style of the other commands."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.main import get_command

from lifecycle_manager.contract.former import takeover
from lifecycle_manager.contract.options import Duration, OptionField, Seconds, fields_of
from lifecycle_manager.settings import GROUPS, PREFIX, Settings, text_of

DURATIONS = (Duration, Seconds)
HELP = f"""Run the Lifecycle Manager.

Each option is also read from the environment: {PREFIX} and its name in capitals, such as {PREFIX}LOG_LEVEL.
"""


Start = Callable[[Mapping[str, object], Sequence[str]], int]
"""Runs with the options that were given, and logs these warnings; returns the exit code."""


def run_command(arguments: list[str], start: Start) -> tuple[TyperCommand, list[str]]:
    """Return the command, and the arguments for it: those of the former version become those of this one."""
    kept, warnings = takeover().arguments(arguments)

    def run(**given: object) -> None:
        raise typer.Exit(start(present(given), warnings))

    return command_of(run), kept


def settings_in(arguments: list[str]) -> Settings:
    """Return the settings of a command line. Raises SettingsInvalid."""
    context = command_of(lambda **_: None).make_context("klm run", takeover().arguments(arguments)[0])
    return Settings(present(context.params))


def present(given: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None}


def command_of(function: Callable[..., None]) -> TyperCommand:
    """Return the command that calls a function with each of the settings that is given as an option."""
    parameters = [_parameter(each, title) for title, fields in grouped().items() for each in fields]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=GroupedCommand, help=HELP)(function)
    return cast("TyperCommand", get_command(app))


class GroupedCommand(TyperCommand):
    """A command whose options are listed in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the options below the titles of their groups."""
        for title, options in groupby(self.get_params(ctx), key=lambda each: getattr(each, "rich_help_panel", None)):
            with formatter.section(title or "Help"):
                formatter.write_dl([record for each in options if (record := each.get_help_record(ctx))])


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


def _parameter(field: OptionField, title: str) -> inspect.Parameter:
    name, is_switch = field.option.name, field.type is bool
    is_list = isinstance(field.default, tuple) and not _is_address(field.default)
    kind: Any = bool if is_switch else list[str] if is_list else str
    default = text_of(field)
    declared = typer.Option(
        f"--{name}/--no-{name}" if is_switch else f"--{name}",
        help=f"{field.option.help}  [default: {default}]" if default else field.option.help,
        metavar=_metavar(field.type),
        rich_help_panel=title,
    )
    annotation = Annotated[kind | None, declared]
    return inspect.Parameter(
        name.replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _is_address(default: tuple[object, ...]) -> bool:
    return len(default) == 2 and isinstance(default[1], int)


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"<{'|'.join(get_args(kind))}>"
    return "<duration>" if kind in DURATIONS else "<str>"
