"""Every command of `klm` that the Markdown files name exists, with the options that they give it."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lifecycle_manager.cli import app
from lifecycle_manager.settings import options

WRITTEN = re.compile(r"(?:^ {4}|`|\$ )klm (?P<words>[^`|#>\n]*)", re.MULTILINE)
OPTION = re.compile(r"--?[a-zA-Z][\w-]*")


def documented() -> set[str]:
    files = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    texts = [path.read_text() for path in map(Path, files) if path.is_file()]
    return {found["words"].split("   ")[0].strip() for text in texts for found in WRITTEN.finditer(text)}


def problems(words: list[str]) -> Iterator[str]:
    """Yield what of a command line is not there."""
    command, name = get_command(app), "klm"
    while isinstance(command, TyperGroup) and words and re.fullmatch(r"[a-z-]+", words[0]) and words[0][0] != "-":
        name, *words = words
        found = command.commands.get(name)
        if not isinstance(found, TyperCommand | TyperGroup):
            yield f"no command {name}"
            return
        command = found
    known = {"--help", *(each for option in command.params for each in (*option.opts, *option.secondary_opts))}
    if name == "run":
        known |= {f"--{each}" for each in options()}
    given = (each.partition("=")[0].rstrip(",.;:)") for each in words)
    yield from (f"no option {each} of {name}" for each in given if OPTION.fullmatch(each) and each not in known)


def test_documented_commands_exist_with_their_options() -> None:
    lines = documented()
    assert len(lines) > 50
    assert [(line, found) for line in sorted(lines) for found in problems(line.split())] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("gte kymas", "no command gte"),
        ("local upp", "no command upp"),
        ("get kymas --stat Error", "no option --stat of get"),
        ("run --no-such=1", "no option --no-such of run"),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, found: str) -> None:
    assert list(problems(line.split())) == [found]
