"""An installation from a mirror, in a network namespace that reaches nothing but itself."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UV = Path(sys.executable).with_name("uv")
CLOSED = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "-")
UNREACHABLE = """
import socket
try:
    socket.create_connection(("192.0.2.1", 443), timeout=5)
except OSError as error:
    print(error.strerror)
"""


def run(*command: object, home: Path | None = None) -> str:
    environment = None if home is None else {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home)}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")),
    reason="needs Linux, root, unshare and ip",
)
def test_klm_is_installed_from_a_mirror_and_runs_with_everything_else_unreachable(tmp_path: Path, wheels: Path) -> None:
    mirror, python = tmp_path / "mirror", tmp_path / "venv" / "bin" / "python"
    required = tmp_path / "requirements.txt"
    package = ("--package", "kyma-lifecycle-manager", "--all-extras")
    run(UV, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-workspace", *package, "--output-file", required)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    download = ("download", "--quiet", "--no-deps", "--require-hashes", "--requirement", required, "--dest", mirror)
    run(python, "-m", "pip", *download)

    def closed(*command: object) -> str:
        return run(*CLOSED, *command, home=tmp_path)

    assert closed(python, "-c", UNREACHABLE) == "Network is unreachable\n"
    install = ("install", "--no-compile", "--no-index", "--find-links", mirror, "--find-links", wheels)
    closed(python, "-m", "pip", *install, "kyma-lifecycle-manager[all]")
    klm = python.with_name("klm")
    assert "mirror.test/skr-watcher:0.1.0" in closed(klm, "images", "--registry", "mirror.test")
    steps = json.loads(closed(klm, "demo", "--rollout", "--clusters", "20", "-o", "json", "--once"))["steps"]
    assert len(steps) > 3
    assert all(step["verified"] for step in steps)
