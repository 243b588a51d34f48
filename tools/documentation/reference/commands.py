"""The commands of `klm` and of the other programs, with their options."""

import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any, NamedTuple

from typer.core import TyperGroup
from typer.main import get_command

from kube_runtime.cli import main as kube_runtime_command
from kyma_module_manager.cli import app as module_manager
from lifecycle_manager.cli import app as klm
from tools.documentation.markdown import code, escaped, table

INTRODUCTION = """# Commands

Completion of the shell: `klm --install-completion`. The options of `klm run` are on [a page of their own](options.md).

"""


KUBE_RUNTIME = ("kube-runtime new", "kube-runtime crds", "kube-runtime run")
"""Commands of argparse, whose parameters no public function names: they are shown as they print themselves."""
HELP_LINE = re.compile(
    r"^  (?P<option>(?:-\w, )?--?[\w-]+)(?: [A-Z{][^ \n]*)?(?P<text>[^\n]*(?:\n {10,}[^\n]*)?)", re.MULTILINE
)


class Parameter(NamedTuple):
    """An argument or an option."""

    names: str
    default: str
    text: str


class Command(NamedTuple):
    """A command with its parameters."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]


def page() -> str:
    """Return the page."""
    printed = (f"\n## {name}\n\n```console\n{_of_help(name)}```\n" for name in KUBE_RUNTIME)
    return INTRODUCTION + "\n".join(_section(each) for each in _all()) + "".join(printed)


def items() -> Iterator[tuple[str, str]]:
    """Yield all commands and their parameters with their texts."""
    for command in _all():
        yield command.name, command.text
        yield from ((f"{command.name} {each.names}", each.text) for each in command.parameters)
    for name in KUBE_RUNTIME:
        yield from ((f"{name} {found['option']}", found["text"]) for found in HELP_LINE.finditer(_of_help(name)))


def _section(command: Command) -> str:
    rows = [(code(each.names), code(each.default), escaped(each.text)) for each in command.parameters]
    known = "\n" + table(("parameter", "default", "meaning"), rows) if rows else ""
    return f"## {command.name}\n\n{command.text}\n{known}"


def _all() -> Iterator[Command]:
    yield from _of_typer("klm", get_command(klm))
    yield from _of_typer("kyma-module-manager", get_command(module_manager))


def _of_typer(name: str, command: Any) -> Iterator[Command]:
    parameters = tuple(_parameter(each) for each in command.params if not getattr(each, "hidden", False))
    own = tuple(each for each in parameters if "completion" not in each.names)
    if not isinstance(command, TyperGroup) or own:
        yield Command(name, _text(command.help), own)
    if isinstance(command, TyperGroup):
        for inner in sorted(command.commands):
            yield from _of_typer(f"{name} {inner}", command.commands[inner])


def _parameter(parameter: Any) -> Parameter:
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = parameter.metavar or parameter.name.upper()
    default = parameter.default
    shown = "" if default is None or callable(default) or default is False or default == () else str(default)
    if isinstance(described := getattr(parameter, "show_default", None), str):
        shown = described
    return Parameter(names, getattr(default, "value", shown) if shown else "", _text(parameter.help))


def _of_help(name: str) -> str:
    """Return what a program prints for `--help`."""
    printed = StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        kube_runtime_command([*name.split()[1:], "--help"])
    return printed.getvalue()


def _text(text: str | None) -> str:
    r"""Return a help text as Markdown. A paragraph after \\b is shown as it is, and the others are wrapped."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        f"```console\n{inspect.cleandoc(each[1:])}\n```" if each.startswith("\b") else " ".join(each.split())
        for each in paragraphs
    )
