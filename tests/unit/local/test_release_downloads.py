"""Releases are downloaded and used only if their checksums match."""

import hashlib
import io
import os
import platform
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kyma_local.progress import Silent
from kyma_local.release_downloads import MACHINES, download_releases
from kyma_local.sources import NAMES, SourceFailed, Versions

WANTED = Versions("v9.9.9", "v8.8.8")
MACHINE = MACHINES[platform.machine()]


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """A folder laid out as the two release servers are."""
    folder = tmp_path / "releases"
    programs = folder / "v9.9.9/bin/linux" / MACHINE
    programs.mkdir(parents=True)
    for name in NAMES[1:]:
        content = os.urandom(200_000)
        (programs / name).write_bytes(content)
        (programs / f"{name}.sha256").write_text(hashlib.sha256(content).hexdigest())
    etcd = folder / "v8.8.8"
    etcd.mkdir()
    packed = etcd / f"etcd-v8.8.8-linux-{MACHINE}.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        member = tarfile.TarInfo(f"etcd-v8.8.8-linux-{MACHINE}/etcd")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"etcd"))
    (etcd / "SHA256SUMS").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")
    return folder


@pytest.fixture
def server(releases: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(releases))) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


class Recorded(Silent):
    def __init__(self) -> None:
        self.things: list[str] = []
        self.parts: list[tuple[int, int]] = []

    def doing(self, what: str) -> None:
        self.things.append(what)

    def done(self, part: int, whole: int) -> None:
        self.parts.append((part, whole))


def download(server: str, folder: Path, listener: Silent | None = None) -> Path:
    target = folder / "scratch/bin"
    target.mkdir(parents=True)
    download_releases(target, WANTED, listener or Silent(), kubernetes_releases=server, etcd_releases=server)
    return target


def test_all_three_programs_are_downloaded_and_executable(server: str, tmp_path: Path) -> None:
    recorded = Recorded()
    target = download(server, tmp_path, recorded)
    assert all(os.access(target / name, os.X_OK) for name in NAMES)
    assert (target / "etcd").read_bytes() == b"etcd"
    assert any("kube-apiserver" in thing for thing in recorded.things)
    assert (200_000, 200_000) in recorded.parts


@pytest.mark.parametrize("tampered", ["kube-apiserver", "etcd"])
def test_wrong_checksum_is_refused(server: str, releases: Path, tmp_path: Path, tampered: str) -> None:
    path = next(path for path in releases.rglob(f"{tampered}*") if path.is_file() and path.suffix != ".sha256")
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(SourceFailed, match=r"SHA-256 is [0-9a-f]{64}, expected [0-9a-f]{64}"):
        download(server, tmp_path)


def test_missing_checksum_is_refused(server: str, releases: Path, tmp_path: Path) -> None:
    (releases / "v8.8.8/SHA256SUMS").write_text("00  something-else.tar.gz\n")
    with pytest.raises(SourceFailed, match="expected none"):
        download(server, tmp_path)


def test_error_names_the_missing_release(server: str, releases: Path, tmp_path: Path) -> None:
    next(releases.rglob("kube-apiserver.sha256")).unlink()
    with pytest.raises(SourceFailed, match=r"kube-apiserver\.sha256.*404"):
        download(server, tmp_path)


def test_archive_without_the_program_is_refused(server: str, releases: Path, tmp_path: Path) -> None:
    packed = next(releases.rglob("*.tar.gz"))
    with tarfile.open(packed, "w:gz"):
        pass
    (releases / "v8.8.8/SHA256SUMS").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")
    with pytest.raises(SourceFailed, match="etcd"):
        download(server, tmp_path)


def test_unreachable_server_is_a_failed_source(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"127\.0\.0\.1:1"):
        download("http://127.0.0.1:1", tmp_path)
