"""`klm demo --rollout` verifies every step on a small fleet, and ends cleanly when it is interrupted."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.e2e.test_demo import running_from
from tests.klm import KLM

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads running processes from /proc"),
]


def command(folder: Path, *more: str) -> list[str]:
    return [str(KLM), "demo", "--rollout", "--once", "--clusters", "20", "--dir", str(folder), *more]


def test_rollout_halts_and_goes_back_and_its_fleet_is_healthy(tmp_path: Path) -> None:
    """As it stays until Ctrl-C, `klm` finds nothing wrong there; and nothing is left running.

    Standard output is one document; what to try meanwhile is on standard error.
    """
    staying = [each for each in command(tmp_path, "--output=json") if each != "--once"]
    with subprocess.Popen(staying, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        lines = []
        for line in demo.stderr:
            lines.append(line)
            if line.startswith("Everything runs"):
                break
        assert demo.poll() is None, lines
        status, check = (of_klm(each, "--kubeconfig", str(tmp_path / "kcp.yaml")) for each in ("status", "check"))
        demo.send_signal(signal.SIGINT)
        document, errors = demo.communicate(timeout=60)
    assert demo.returncode == 0, errors
    report = msgspec.json.decode(document)
    assert (report["clusters"], len(report["steps"])) == (20, 4)
    assert [step["name"] for step in report["steps"] if not step["verified"]] == []
    assert "20 Kymas · 20 Ready" in status.stdout, status.stdout
    assert "nothing is wrong" in status.stdout
    assert "took 1.2.0 of keda-regular-3 back" in status.stdout
    assert "✗" not in check.stdout, check.stdout
    assert (status.returncode, check.returncode) == (0, 0)
    assert running_from(tmp_path) == []


def of_klm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KLM, *arguments], capture_output=True, text=True, timeout=120, check=False)


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
