"""The command line of `klm run`: an option for each of the settings, in the style of the other commands."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand
from typer.main import get_command

from lifecycle_manager.contract.durations import PATTERN
from lifecycle_manager.contract.former import takeover
from lifecycle_manager.options.model import Option
from lifecycle_manager.settings import PREFIX, Settings, grouped

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
    parameters = [_parameter(each, title) for title, group in grouped().items() for each in group]
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


def _parameter(option: Option, title: str) -> inspect.Parameter:
    kind: Any = {"boolean": bool, "array": list[str]}.get(str(option.schema.get("type")), str)
    declared = typer.Option(
        f"--{option.name}/--no-{option.name}" if kind is bool else f"--{option.name}",
        help=f"{option.help}  [default: {option.default}]" if option.default else option.help,
        metavar=_metavar(option.schema),
        rich_help_panel=title,
    )
    return inspect.Parameter(
        option.name.replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, declared],
    )


def _metavar(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"<{'|'.join(schema['enum'])}>"
    return "<duration>" if schema.get("pattern") == PATTERN else "<str>"
