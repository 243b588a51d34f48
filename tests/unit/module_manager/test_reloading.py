"""`klm module run --reload`: a change of the source starts the program again, and Ctrl-C ends both."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kyma_module_manager.reloading import _modified

WITHIN = 30.0
PROGRAM = """
import os, pathlib, signal
with pathlib.Path({log!r}).open("a") as log:
    log.write(f"{version} {{os.getpid()}}\\n")
signal.pause()
"""
RELOADER = """
import sys
from pathlib import Path
from kyma_module_manager.reloading import run_reloading
sys.exit(run_reloading([sys.executable, sys.argv[1]], Path(sys.argv[1]).parent))
"""


def lines_of(log: Path, count: int) -> list[str]:
    """Wait until the programs have written so many lines."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        lines = log.read_text().splitlines() if log.exists() else []
        if len(lines) >= count:
            return lines
    raise AssertionError(f"not {count} starts within {WITHIN} s")


def test_change_starts_the_program_again_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    log, program = tmp_path / "log", tmp_path / "project" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(log=str(log), version="first"))
    command = [sys.executable, "-c", RELOADER, str(program)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as reloader:
        try:
            lines_of(log, 1)
            program.write_text(PROGRAM.format(log=str(log), version="second"))
            lines = lines_of(log, 2)
        finally:
            reloader.send_signal(signal.SIGINT)
            _, errors = reloader.communicate(timeout=WITHIN)
    assert reloader.returncode == 0
    assert [each.split()[0] for each in lines] == ["first", "second"]
    assert errors == "a file has changed: started again\n"
    for each in lines:
        with pytest.raises(ProcessLookupError):
            os.kill(int(each.split()[1]), 0)


def test_hidden_folders_are_not_searched_and_removed_ones_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    scan = os.scandir

    def scandir(folder: Any) -> Any:
        searched.append(Path(folder).name)
        if searched[-1] == "removed":
            raise FileNotFoundError(folder)
        return scan(folder)

    for name in ("src/manager.py", ".venv/lib/other.py", "removed/gone.py", "src/.hidden.py", "src/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(os, "scandir", scandir)
    assert set(_modified(tmp_path)) == {tmp_path / "src/manager.py"}
    assert sorted(searched[1:]) == ["removed", "src"]
