"""The command `klm`."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lifecycle_manager.cli import app


@pytest.mark.parametrize(("option", "shown"), [("--version", "klm 0."), ("--help", "--install-completion")])
def test_options_of_the_command_itself(option: str, shown: str) -> None:
    result = CliRunner().invoke(app, [option], prog_name="klm")
    assert result.exit_code == 0
    assert shown in result.output


@pytest.mark.parametrize(
    ("command", "brought", "others"),
    [
        ("run", "lifecycle_manager.cli", "kyma_demo"),
        ("get", "kyma_fleet.cli.reading", "kyma_demo"),
        ("local", "kyma_local.cli", "kyma_fleet"),
    ],
)
def test_only_the_called_command_is_imported(command: str, brought: str, others: str) -> None:
    program = f"""
import atexit, sys
atexit.register(lambda: print("imported", *sys.modules))
sys.argv = ["klm", "{command}", "--help"]
from lifecycle_manager.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    modules = done.stdout.rpartition("imported ")[2].split()
    assert brought in modules, done.stderr
    assert not [each for each in modules if each.startswith(others)]
