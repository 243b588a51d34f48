"""The command `klm`."""

import pytest
from typer.testing import CliRunner

from lifecycle_manager.cli import app


@pytest.mark.parametrize(("option", "shown"), [("--version", "klm 0."), ("--help", "--install-completion")])
def test_options_of_the_command_itself(option: str, shown: str) -> None:
    result = CliRunner().invoke(app, [option], prog_name="klm")
    assert result.exit_code == 0
    assert shown in result.output
