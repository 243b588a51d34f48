"""Ports that are given out are free, and no other process that looks for some at the same time is given the same."""

import subprocess
import sys

import pytest

from local import ports


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many ports as nobody has been given yet; all are tried."""
    monkeypatch.setattr(ports, "FIRST", ports.LAST - 199)


@pytest.mark.usefixtures("few")
def test_other_process_is_not_given_what_this_one_was_given_and_does_not_use_yet() -> None:
    mine = {ports.free_port() for _ in range(50)}
    code = f"from local import ports; ports.FIRST = {ports.FIRST}; print(*(ports.free_port() for _ in range(20)))"
    others = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert not mine & {int(port) for port in others.stdout.split()}
