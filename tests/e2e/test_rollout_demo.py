"""`klm demo --rollout` verifies every step on a small fleet, and ends cleanly when it is interrupted."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.e2e.test_demo import running_from

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads running processes from /proc"),
]


def command(folder: Path, *more: str) -> list[str]:
    klm = Path(sys.executable).with_name("klm")
    return [str(klm), "demo", "--rollout", "--once", "--clusters", "20", "--dir", str(folder), *more]


def test_rollout_halts_and_goes_back_and_leaves_nothing_running(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path, "--output=json"), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = msgspec.json.decode(done.stdout)
    assert (report["clusters"], len(report["steps"])) == (20, 4)
    assert [step["name"] for step in report["steps"] if not step["verified"]] == []
    assert running_from(tmp_path) == []


def test_interrupted_demo_says_nothing_of_errors_and_leaves_nothing_running(tmp_path: Path) -> None:
    with subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "is installed in" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(60) == 130, rest
    assert "Traceback" not in rest
    assert running_from(tmp_path) == []


def test_rollouts_are_shown_on_simulated_clusters_alone(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path, "--nodes"), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "--rollout" in done.stderr
