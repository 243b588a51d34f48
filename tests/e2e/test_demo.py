"""What the demo refuses, and how its tests find the processes that it left."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.klm import KLM

pytestmark = pytest.mark.xdist_group("demo")


def running_from(folder: Path) -> list[str]:
    """Return the command lines of processes that refer to a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # ended meanwhile
            if str(folder) in command:
                found.append(command)
    return found


def test_demo_on_existing_clusters_needs_both_kubeconfigs(tmp_path: Path) -> None:
    command: list[str | Path] = [KLM, "demo", "--once", "--kcp-kubeconfig", tmp_path / "kcp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "skr-kubeconfig" in done.stderr
