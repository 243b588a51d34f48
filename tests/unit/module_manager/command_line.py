"""The command `klm module …`, run in the process of the test."""

import subprocess
from pathlib import Path

from typer.testing import CliRunner

from kyma_module_manager.project import commands


def klm(*arguments: object, status: int | None = 0) -> str:
    """Run a command that ends with a status, None for any but 0; return what it prints."""
    words = [str(each) for each in arguments]
    result = CliRunner().invoke(commands.app, words, env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status if status is not None else result.exit_code, result.output
    return result.output


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def git(folder: Path) -> None:
    """Make a folder a Git repository with a commit."""
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "start"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)
