"""Programs in Go that tests build and run."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from kyma_local.go_modules import GO, go_on_path

OFFLINE = ("dial tcp", "no such host", "module lookup disabled", "i/o timeout", "connection refused")
"""What Go says where it can't download a module."""


def run_go(source: Path, *arguments: str) -> str:
    """Run a command of Go in the folder of a module; skip the test without Go, or without the modules and a network."""
    if (go := go_on_path()) is None:
        pytest.skip(f"needs Go 1.{GO}")
    done = subprocess.run(
        [go, *arguments],
        cwd=source,
        env={**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode and any(each in done.stderr for each in OFFLINE):
        pytest.skip(f"needs Go modules that are not in the cache: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(source: Path, target: Path) -> Path:
    """Build the program of a folder, one at a time: what another worker of the tests compiles is not compiled again."""
    with (Path(tempfile.gettempdir()) / "go-programs-of-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_go(source, "build", "-o", str(target), ".")
    return target
