"""The first run of the demo where nothing is cached, without kubectl and Go: programs come from a mirror."""

import hashlib
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from kyma_local.binaries import find_binaries
from kyma_local.downloads import MIRROR
from kyma_local.kubectl import find_kubectl
from kyma_local.platforms import Platform
from kyma_local.sources import ETCD, KUBERNETES
from tests.e2e.test_demo import running_from
from tests.klm import KLM

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and mirrors releases for Linux"),
]
SECONDS = 280
SETTLED_SECONDS = 30


def with_digest(program: Path, file: Path) -> None:
    """Put a program into the mirror, with its digest beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(program.resolve())
    with program.open("rb") as content:
        file.with_name(f"{file.name}.sha256").write_text(hashlib.file_digest(content, "sha256").hexdigest())


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """A mirror of the release servers, of the programs that are on this machine."""
    programs, here = find_binaries(), Platform.current()
    releases = tmp_path / f"mirror/dl.k8s.io/release/{KUBERNETES}/bin/{here.system}/{here.machine}"
    for program in (programs.kube_apiserver, programs.kube_controller_manager, find_kubectl()):
        with_digest(program, releases / program.name)
    etcd = tmp_path / f"mirror/github.com/etcd-io/etcd/releases/download/{ETCD}"
    etcd.mkdir(parents=True)
    packed = etcd / f"etcd-{ETCD}-{here}.tar.gz"
    with tarfile.open(packed, "w:gz", compresslevel=1) as tar:
        tar.add(programs.etcd.resolve(), f"etcd-{ETCD}-{here}/etcd")
    (etcd / "SHA256SUMS").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "mirror"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def works(command: list[str], environment: dict[str, str]) -> None:
    """Run a command until it succeeds: `klm explain` exits with 1 while the last change is still under way."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, f"{command}\n{done.stdout}\n{done.stderr}"


def test_first_demo_verifies_every_step_and_what_it_prints_works_without_kubectl(tmp_path: Path, mirror: str) -> None:
    """Standard output is one document; what is fetched, and what to try meanwhile, is on standard error."""
    environment = {"HOME": str(tmp_path / "home"), "PATH": str(KLM.parent), MIRROR: mirror, "KUBE_EDITOR": "/bin/true"}
    command = [str(KLM), "demo", "--output=json", "--changes", "10", "--dir", str(tmp_path / "demo")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        killer = threading.Timer(SECONDS, demo.kill)
        killer.start()
        try:
            assert demo.stderr is not None
            lines = []
            for line in demo.stderr:
                lines.append(line.rstrip())
                if line.startswith("Logs:"):
                    break
            output = "\n".join(lines)
            assert "First, once: kube-apiserver and etcd are downloaded" in output, output
            assert "Go" not in output, output
            (first,) = [line for line in lines if line.startswith("  export ")]
            printed = [line for line in lines if line.startswith("  klm ")]
            assert len(printed) == 5, output
            assert not any(line.startswith("  kubectl") for line in lines)
            for each in printed:
                works(["/bin/sh", "-c", f"{first}\n{each}"], environment)
        finally:
            demo.terminate()
            killer.cancel()
        document, errors = demo.communicate(timeout=120)
    assert demo.returncode == 0, errors
    report = msgspec.json.decode(document)
    assert [step["name"] for step in report["steps"] if not step["verified"]] == []
    assert len(report["steps"]) == 11
    assert len(report["timeline"]) == 9
    assert report["timeline"][0] == {"program": "user", "what": "writes the Module CR", "ms": 0.0}
    assert all(station["ms"] > 0 for station in report["timeline"][1:])
    assert "sees Ready in the Module CR's status" in [station["what"] for station in report["timeline"]]
    for spread in (report["changeMs"], report["floorMs"]):
        assert 0 < spread["median"] <= spread["p99"]
    assert report["versions"]["kubernetes"].startswith("v1.")
    assert running_from(tmp_path / "demo") == []


def test_first_line_of_make_demo_says_what_it_does_and_how_long() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo", "VENV=.local/no-venv"],
        capture_output=True,
        text=True,
        check=True,
    )
    first = done.stdout.splitlines()[0]
    assert first.startswith("echo")
    assert "minutes" in first + done.stdout.splitlines()[1]


def test_announcement_is_printed_before_anything_slow_is_imported() -> None:
    program = "import sys, kyma_demo.cli; print(*sorted({'httpx', 'lifecycle_manager', 'uvloop'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
