"""The commands of the Markdown files and workflows: programs, options, arguments and make's tasks exist."""

import io
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from kube_runtime.cli import parser
from kyma_module_manager.cli import app as module_manager
from lifecycle_manager.cli import app
from lifecycle_manager.command_line import run_command
from tools.documentation.markdown import blocks, prose
from tools.documentation.reference import kept
from tools.release.version import PROJECTS

CODE = re.compile(r"`((?:[A-Z]+=\S+ )?(?:klm|kube-runtime|kyma-module-manager|make|python -m) [^`]+)`")
VARIABLE = re.compile(r"^(?:[A-Z_]+=\S+ )+")
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


@cache
def lines() -> tuple[Line, ...]:
    return tuple(_lines())


def _lines() -> Iterator[Line]:
    listed = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    for name in sorted({*listed} - {"CHANGELOG.md", *map(str, kept())}):
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
    plain_lines = (line._replace(text=VARIABLE.sub("", line.text)) for line in lines())
    found = [line for line in plain_lines if line.text.startswith(f"{program} ")]
    plain = (re.sub(r"[\[\]]", "", SUBSTITUTED.sub("VALUE", line.text)) for line in found)
    start = len(program.split())
    return [(line, shlex.split(END.split(text)[0])[start:]) for line, text in zip(found, plain, strict=True)]


@cache
def command_of(program: typer.Typer) -> Any:
    return get_command(program)


def wrong_in_klm(words: list[str], *, whole: bool, program: typer.Typer = app) -> str:
    """Return what `klm` would refuse, with exception of values that stand for others."""
    command = command_of(program)
    path, rest = str(program.info.name), list(words)
    while isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if PLACEHOLDERS.match(name):
            return ""
        if name not in command.commands:
            return f"{path} has no command {name}"
        command, path = command.commands[name], f"{path} {name}"
    if path == "klm run":
        command, rest = run_command(rest, lambda _given, _warnings: 0)
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


def wrong_in_kube_runtime(words: list[str], *, whole: bool) -> str:
    """Return what `kube-runtime` would refuse."""
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            parser().parse_args(words)
    except SystemExit:
        problem = printed.getvalue().rpartition("error: ")[2].strip()
        return "" if not whole and "arguments are required" in problem else problem
    return ""


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


def test_commands_of_kyma_module_manager_are_accepted() -> None:
    found = commands("kyma-module-manager")
    wrong = [(line, wrong_in_klm(words, whole=line.whole, program=module_manager)) for line, words in found]
    assert len(found) > 3
    assert [each for each in wrong if each[1]] == []


def test_commands_of_kube_runtime_are_accepted() -> None:
    found = commands("kube-runtime")
    wrong = [(line, wrong_in_kube_runtime(words, whole=line.whole)) for line, words in found]
    assert len(found) > 2
    assert [each for each in wrong if each[1]] == []


def test_modules_that_documents_run_exist() -> None:
    found = {words[0]: line for line, words in commands("python -m")} | {
        words[0]: line for line, words in commands("python3 -m")
    }
    assert len(found) > 8
    assert [(line, name) for name, line in found.items() if find_spec(name) is None] == []


def test_what_documents_install_exists_and_has_a_place_to_come_from() -> None:
    """No distribution of ours is in a package index: a command that installs one says where its wheels are."""
    own = {tomllib.loads(file.read_text())["project"]["name"] for file in PROJECTS}
    installs = [line.text for line in lines() if re.search(r"\bpip install\b", line.text)]
    assert len(installs) > 8
    names = {line: [word.partition("[")[0] for word in shlex.split(line.partition("install ")[2])] for line in installs}
    assert [line for line in installs if own & {*names[line]} and "--find-links" not in line] == []
    ours = [name for words in names.values() for name in words if name.startswith(("kyma-", "kube-"))]
    assert [name for name in ours if name not in own] == []


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
        ("get kymas --stat Error", "--stat"),
    ],
)
def test_a_wrong_command_of_klm_is_found(text: str, wrong: str) -> None:
    assert wrong in wrong_in_klm(text.split(), whole=True)
    assert bool(wrong) == bool(wrong_in_klm(text.split(), whole=True))


@pytest.mark.parametrize("text", ["start operator.py", "run", "run operator.py --shard", "crds a.py b.py"])
def test_a_wrong_command_of_kube_runtime_is_found(text: str) -> None:
    assert wrong_in_kube_runtime(text.split(), whole=True)


@pytest.mark.parametrize("text", ["tests", "bench GROUP=fleet"])
def test_a_wrong_task_of_make_is_found(text: str) -> None:
    assert "the Makefile has no" in wrong_in_make(text.split())


def lists_in_merge_patches() -> Iterator[str]:
    """Yield the commands that replace a list, and so remove what users have in it."""
    for line in lines():
        words = shlex.split(VARIABLE.sub("", line.text)) if "--type" in line.text and " patch " in line.text else []
        if {"merge", "--type=merge"} & {*words} and any(each[:1] == "{" and "[" in each for each in words):
            yield f"{line.place}: {line.text}"


def test_no_documented_merge_patch_replaces_a_list() -> None:
    assert [line for line in lines() if " patch " in line.text and "--type merge" in line.text]
    assert list(lists_in_merge_patches()) == []


@pytest.mark.parametrize(
    ("missing", "message"),
    [("version_info", "is not Python 3.11 or newer: make PYTHON="), ("ensurepip", "apt-get install python3-venv")],
)
def test_make_says_what_is_missing_for_a_venv(missing: str, message: str, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\ncase "$2" in *{missing}*) exit 1 ;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "setup", f"PYTHON={python}", f"VENV={tmp_path}/venv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout.startswith(f"{python} ")
    assert message in done.stdout.splitlines()[0]
    assert not (tmp_path / "venv").exists()
