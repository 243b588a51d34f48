"""The command of the README prints one JSON document, verifies every step, and leaves no process running."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads running processes from /proc")
def test_demo_verifies_every_step_and_leaves_nothing_running(tmp_path: Path) -> None:
    command: list[str | Path] = [KLM, "demo", "--once", "--output=json", "--changes", "10", "--dir", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = msgspec.json.decode(done.stdout)
    assert [step["name"] for step in report["steps"] if not step["verified"]] == []
    assert len(report["steps"]) == 11
    assert len(report["timeline"]) == 9
    assert report["timeline"][0] == {"program": "user", "what": "writes the Module CR", "ms": 0.0}
    assert all(station["ms"] > 0 for station in report["timeline"][1:])
    assert "sees Ready in the Module CR's status" in [station["what"] for station in report["timeline"]]
    for spread in (report["changeMs"], report["floorMs"]):
        assert 0 < spread["median"] <= spread["p99"]
    assert report["versions"]["kubernetes"].startswith("v1.")
    assert running_from(tmp_path) == []


def test_demo_on_existing_clusters_needs_both_kubeconfigs(tmp_path: Path) -> None:
    command: list[str | Path] = [KLM, "demo", "--once", "--kcp-kubeconfig", tmp_path / "kcp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "skr-kubeconfig" in done.stderr
