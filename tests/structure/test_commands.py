"""The commands of the Markdown files and workflows: programs, options, arguments and make's tasks exist."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from documentation.markdown import blocks, prose
from lifecycle_manager.cli import app
from lifecycle_manager.command_line import run_command

CODE = re.compile(r"`((?:klm|make) [^`]+)`")
SUBSTITUTED = re.compile(r"\$\([^)]*\)")
END = re.compile(r"\s#\s|&&|\|\||[|;>]")
"""Where a command ends on its line; quoted ones with such a character are cut there, too."""
MAKEFILE = Path("Makefile").read_text()
TASKS = frozenset(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
VARIABLES = frozenset(re.findall(r"\$\(?(?:or \$\()?(?:if \$\()?([A-Z]+)\b", MAKEFILE))
PLACEHOLDERS = re.compile(r"[A-Z]|…|\.\.\.")


class Line(NamedTuple):
    """A command of a document; `whole` where a reader is to type it as it is."""

    place: str
    text: str
    whole: bool


def lines() -> Iterator[Line]:
    listed = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    for name in sorted({*listed} - {"CHANGELOG.md"}):
        text = Path(name).read_text()
        typed = [line for block in blocks(text) if block.language != "python" for line in block.code.splitlines()]
        for _, line in prose(text):
            if line.startswith("    "):
                typed.append(line)
            else:
                yield from (Line(name, found, whole=False) for found in CODE.findall(line))
        for joined in re.sub(r"\\\n", " ", "\n".join(typed)).splitlines():
            command = joined.strip().removeprefix("$ ")
            yield Line(name, command, whole=True)
            yield from (Line(name, each.strip(), whole=True) for each in command.split("&&")[1:])
    for file in sorted(Path(".github/workflows").iterdir()):
        for found in re.findall(r"(?:run:|^ +-) (make .+?)\}?$", file.read_text(), re.MULTILINE):
            yield Line(str(file), found, whole=True)


def commands(program: str) -> list[tuple[Line, list[str]]]:
    """Return the commands of a program with their words after its name."""
    found = [line for line in lines() if line.text.startswith(f"{program} ")]
    plain = (re.sub(r"[\[\]]", "", SUBSTITUTED.sub("VALUE", line.text)) for line in found)
    return [(line, shlex.split(END.split(text)[0])[1:]) for line, text in zip(found, plain, strict=True)]


def wrong_in_klm(words: list[str], *, whole: bool) -> str:
    """Return what `klm` would refuse, with exception of values that stand for others."""
    command: Any = get_command(app)
    path, rest = "klm", list(words)
    while isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if PLACEHOLDERS.match(name):
            return ""
        if name not in command.commands:
            return f"{path} has no command {name}"
        command, path = command.commands[name], f"{path} {name}"
    if path == "klm run":
        command, rest = run_command(rest)
    if {"--help", "…", "..."} & {*rest}:
        return ""
    if not whole and rest and rest[-1].startswith("--"):
        rest.append("VALUE")  # an option is named, without its value or as a flag
    try:
        given, extra, _ = command.make_parser(typer.Context(command)).parse_args(rest)
    except Exception as error:  # noqa: BLE001 - of a library whose exceptions are private
        return str(error) or repr(error)
    if extra and extra != ["VALUE"]:
        return f"{path} takes no {extra[0]}"
    missing = [each.name for each in command.params if each.required and given.get(each.name) in {None, ()}]
    return f"{path} lacks {missing[0]}" if whole and missing else ""


def wrong_in_make(words: list[str]) -> str:
    """Return a task or a variable that the Makefile does not have."""
    for word in words:
        name, assigned, _ = word.partition("=")
        if name not in (VARIABLES if assigned else TASKS):
            return f"the Makefile has no {name}"
    return ""


def test_commands_of_klm_are_accepted() -> None:
    found = commands("klm")
    refused = [(line, wrong) for line, words in found if (wrong := wrong_in_klm(words, whole=line.whole))]
    assert len(found) > 60
    assert refused == []


def test_tasks_of_make_exist() -> None:
    found = commands("make")
    refused = [(line, wrong) for line, words in found if (wrong := wrong_in_make(words))]
    assert len(found) > 30
    assert refused == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("explain demo -o json", ""),
        ("explain", "lacks"),
        ("explain demo --rule-set", "--rule-set"),
        ("explain demo keda too", "takes no too"),
        ("explained demo", "no command explained"),
        ("run --no-such-option", "--no-such-option"),
    ],
)
def test_a_wrong_command_of_klm_is_found(text: str, wrong: str) -> None:
    assert wrong in wrong_in_klm(text.split(), whole=True)
    assert bool(wrong) == bool(wrong_in_klm(text.split(), whole=True))


@pytest.mark.parametrize("text", ["tests", "bench GROUP=fleet"])
def test_a_wrong_task_of_make_is_found(text: str) -> None:
    assert "the Makefile has no" in wrong_in_make(text.split())
