"""A command of Go that fails says why, without the packages that it compiled before."""

import sys
from pathlib import Path

import pytest

from kyma_local.go_modules import run
from kyma_local.sources import SourceFailed


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_error_has_no_lines_of_progress(tmp_path: Path) -> None:
    seen: list[str] = []
    failing = program("import sys; sys.exit('k8s.io/api/core/v1\\n# example.com/x\\nx.go:1:2: undefined: y')")
    with pytest.raises(SourceFailed, match=r"failed: # example\.com/x\nx\.go:1:2: undefined: y$"):
        run(failing, tmp_path, seen.append)
    assert seen[0] == "k8s.io/api/core/v1"


def test_command_that_takes_too_long_is_ended_and_named(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"was not done after 0\.001 minutes; run it again"):
        run(program("import threading; threading.Event().wait()"), tmp_path, within=0.06)
