"""The `--help` of every command: it is printed, fits a terminal, and needs nothing but what declares commands."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from kyma_module_manager.cli import app as module_manager
from lifecycle_manager.cli import SECTIONS
from lifecycle_manager.cli import app as klm

APPS = {"klm": klm, "kyma-module-manager": module_manager}
HEAVY = {"aiohttp", "cryptography", "jinja2", "kube_runtime", "msgspec", "pydantic", "rich", "structlog", "uvloop"}
OF_RUN = HEAVY - {"kube_runtime", "msgspec", "pydantic"} | {
    "fastapi",
    "kube_runtime.client",
    "opentelemetry",
    "prometheus_client",
    "yaml",
}


def commands(name: str, command: object) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command, and those of all commands below it."""
    yield (name,)
    if isinstance(command, TyperGroup):
        for below in command.commands:
            yield from ((name, *words) for words in commands(below, command.commands[below]))


COMMANDS = [words for name, app in APPS.items() for words in commands(name, get_command(app))]


@pytest.mark.parametrize("words", [each for each in COMMANDS if each[-1] != "kubectl"], ids=" ".join)  # its own help
def test_help_of_each_command_is_printed_within_80_columns(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(APPS[words[0]], [*words[1:], "-h"], prog_name=words[0], env={"COLUMNS": "80"})
    assert (result.exit_code, result.exception) == (0, None)
    assert result.output.startswith(f"Usage: {' '.join(words)} ")
    assert max(map(len, result.output.splitlines())) <= 80
    assert "<bool>" not in result.output


@pytest.mark.parametrize(
    "group", [words for words in COMMANDS if len(words) == 1 or words[1:] in {("module",), ("local",), ("rollout",)}]
)
def test_each_command_is_listed_with_a_whole_sentence(group: tuple[str, ...]) -> None:
    result = CliRunner().invoke(APPS[group[0]], [*group[1:], "--help"], prog_name=group[0], env={"COLUMNS": "80"})
    _, _, listed = result.output.partition("-h, --help")
    sentences = [line for line in listed.splitlines() if line.startswith("  ")]
    assert len(sentences) >= len(
        [each for each in COMMANDS if each[: len(group)] == group != each and len(each) == len(group) + 1]
    )
    assert [line for line in sentences if not line.endswith(".")] == []
    assert "..." not in listed


def test_commands_of_klm_are_listed_in_groups() -> None:
    shown = CliRunner().invoke(klm, ["-h"], prog_name="klm").output
    titles = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [*(f"{each}:" for each in ("Options", *SECTIONS)), "Other commands:"]
    listed = [line.split()[0] for line in shown.partition("Other commands:\n")[2].splitlines()]
    assert listed == ["help"], "a new command belongs to a group"


@pytest.mark.parametrize("words", [("get",), ("rollout",), ("rollout", "undo"), ()])
def test_help_of_a_command_is_printed_by_help(words: tuple[str, ...]) -> None:
    asked, shown = (
        CliRunner().invoke(klm, arguments, prog_name="klm").output
        for arguments in (["help", *words], [*words, "--help"])
    )
    assert asked == shown
    assert asked.startswith("Usage: klm")


def test_commands_of_all_distributions_are_found() -> None:
    assert {("klm",), ("klm", "run"), ("klm", "get"), ("klm", "demo"), ("klm", "local", "up")} <= set(COMMANDS)
    assert {("klm", "module", "package"), ("kyma-module-manager", "module", "package")} <= set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "completing"),
    [
        (("--version",), {}),
        (("get", "--help"), {}),
        (("module", "package", "--help"), {}),
        ((), {"_KLM_COMPLETE": "complete_bash", "COMP_WORDS": "klm ", "COMP_CWORD": "1"}),
        ((), {"_KLM_COMPLETE": "complete_bash", "COMP_WORDS": "klm module ", "COMP_CWORD": "2"}),
    ],
)
def test_help_and_completion_import_what_declares_commands_alone(
    arguments: tuple[str, ...], completing: dict[str, str]
) -> None:
    _, modules = modules_of(arguments, completing)
    assert not HEAVY & modules
    assert not [each for each in modules if each.startswith("kyma_demo") and "get" in arguments], "another command"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [(("run", "--help"), ""), ((), "klm run --log-level DEBUG --"), ((), "klm run ")],
)
def test_options_of_run_are_listed_without_what_they_set(arguments: tuple[str, ...], line: str) -> None:
    completing = {"_KLM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    shown, modules = modules_of(arguments, completing if line else {})
    assert "--max-warm-skrs" in shown or line == "klm run "
    assert not OF_RUN & modules
    domains = {each for each in modules if each.startswith("lifecycle_manager.") and each.count(".") > 1}
    assert {each.split(".")[1] for each in domains} == {"contract", "options"}


def modules_of(arguments: tuple[str, ...], environment: dict[str, str]) -> tuple[str, set[str]]:
    """Run `klm` and return what it printed, and the modules that it imported."""
    program = f"""
import atexit, sys
atexit.register(lambda: print("imported", *sys.modules))
sys.argv = ["klm", *{arguments}]
from lifecycle_manager.cli import main
main()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    shown, found, modules = done.stdout.rpartition("imported ")
    assert found, done.stderr
    return shown, {*modules.split()}
