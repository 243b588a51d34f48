"""`klm module run --reload`: a change of the source starts the program again, and Ctrl-C ends both."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
