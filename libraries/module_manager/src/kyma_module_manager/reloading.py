"""Runs a program again whenever its source changes, for the development of a manager."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.3
STOP_SECONDS = 30.0
SUFFIXES = frozenset({".py", ".yaml"})


def run_reloading(command: Sequence[str], folder: Path) -> int:
    """Run a command, and again after each change of a Python or YAML file below a folder, until SIGTERM or Ctrl-C."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    while not stopping.is_set():
        seen = _modified(folder)
        child = subprocess.Popen(command)  # noqa: S603 - this program itself
        while not stopping.wait(LOOK_SECONDS) and _modified(folder) == seen:
            pass  # a child that has ended by an error is started again by the change that mends it
        _stop(child)
        if not stopping.is_set():
            sys.stderr.write("a file has changed: started again\n")
    return 0


def _modified(folder: Path) -> Mapping[Path, int]:
    found = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]  # a .venv has thousands of files
        for path in (Path(parent, each) for each in files if not each.startswith(".")):
            if path.suffix in SUFFIXES:
                with suppress(FileNotFoundError):  # removed meanwhile
                    found[path] = path.stat().st_mtime_ns
    return found


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
