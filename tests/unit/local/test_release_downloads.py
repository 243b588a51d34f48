"""Releases are downloaded by platform, from a mirror where one is set, and used only if their checksums match."""

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kyma_local.downloads import MIRROR
from kyma_local.kubectl import find_kubectl, kubectl_command
from kyma_local.platforms import Platform
from kyma_local.progress import Listener
from kyma_local.release_downloads import download_releases
from kyma_local.sources import KUBERNETES, NAMES, SourceFailed, Versions

WANTED = Versions("v9.9.9", "v8.8.8")
ARM = Platform("linux", "arm64")
ETCD = "github.com/etcd-io/etcd/releases/download/v8.8.8"


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """A folder laid out as a mirror of the two release servers is."""
    folder = tmp_path / "releases"
    programs = folder / "dl.k8s.io/release/v9.9.9/bin/linux/arm64"
    programs.mkdir(parents=True)
    for name in NAMES[1:]:
        content = os.urandom(200_000)
        (programs / name).write_bytes(content)
        (programs / f"{name}.sha256").write_text(hashlib.sha256(content).hexdigest())
    etcd = folder / ETCD
    etcd.mkdir(parents=True)
    packed = etcd / "etcd-v8.8.8-linux-arm64.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        member = tarfile.TarInfo("etcd-v8.8.8-linux-arm64/etcd")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"etcd"))
    (etcd / "SHA256SUMS").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")
    return folder


@pytest.fixture(autouse=True)
def mirror(releases: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(releases))) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{serving.server_port}"
        monkeypatch.setenv(MIRROR, address)
        yield address
        serving.shutdown()
        thread.join()


class Recorded(Listener):
    def __init__(self) -> None:
        self.things: list[str] = []
        self.parts: list[tuple[int, int]] = []

    def doing(self, what: str) -> None:
        self.things.append(what)

    def done(self, part: int, whole: int) -> None:
        self.parts.append((part, whole))


def download(folder: Path, listener: Listener | None = None, *, platform: Platform = ARM) -> Path:
    target = folder / "scratch/bin"
    target.mkdir(parents=True)
    download_releases(target, WANTED, listener or Listener(), platform=platform)
    return target


def test_all_three_programs_are_downloaded_and_executable(tmp_path: Path) -> None:
    recorded = Recorded()
    target = download(tmp_path, recorded)
    assert all(os.access(target / name, os.X_OK) for name in NAMES)
    assert (target / "etcd").read_bytes() == b"etcd"
    assert any("kube-apiserver" in thing for thing in recorded.things)
    assert (200_000, 200_000) in recorded.parts


@pytest.mark.parametrize("tampered", ["kube-apiserver", "etcd"])
def test_wrong_checksum_is_refused(releases: Path, tmp_path: Path, tampered: str) -> None:
    path = next(path for path in releases.rglob(f"{tampered}*") if path.is_file() and path.suffix != ".sha256")
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(SourceFailed, match=r"SHA-256 is [0-9a-f]{64}, expected [0-9a-f]{64}"):
        download(tmp_path)


def test_missing_checksum_is_refused(releases: Path, tmp_path: Path) -> None:
    (releases / ETCD / "SHA256SUMS").write_text("00  something-else.tar.gz\n")
    with pytest.raises(SourceFailed, match="expected none"):
        download(tmp_path)


def test_error_names_the_missing_release(releases: Path, tmp_path: Path) -> None:
    next(releases.rglob("kube-apiserver.sha256")).unlink()
    with pytest.raises(SourceFailed, match=r"kube-apiserver\.sha256.*404"):
        download(tmp_path)


def test_archive_without_the_program_is_refused(releases: Path, tmp_path: Path) -> None:
    packed = next(releases.rglob("*.tar.gz"))
    with tarfile.open(packed, "w:gz"):
        pass
    (releases / ETCD / "SHA256SUMS").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")
    with pytest.raises(SourceFailed, match="etcd"):
        download(tmp_path)


def test_unreachable_server_is_a_failed_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:1")
    with pytest.raises(SourceFailed, match=r"127\.0\.0\.1:1/dl\.k8s\.io"):
        download(tmp_path)


def test_release_of_another_machine_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"linux/s390x/kube-apiserver.*404"):
        download(tmp_path, platform=Platform("linux", "s390x"))


def test_kubectl_is_downloaded_where_there_is_none(
    releases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Platform.current()
    folder = releases / f"dl.k8s.io/release/{KUBERNETES}/bin/{here.system}/{here.machine}"
    folder.mkdir(parents=True)
    (folder / "kubectl").write_bytes(b"kubectl")
    (folder / "kubectl.sha256").write_text(hashlib.sha256(b"kubectl").hexdigest())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert kubectl_command(Path("/my kcp")) == "klm local kubectl --kubeconfig '/my kcp'"
    found = find_kubectl()
    assert (found.name, found.read_bytes(), os.access(found, os.X_OK)) == ("kubectl", b"kubectl", True)
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:1")
    assert find_kubectl() == found


def test_kubectl_of_the_machine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (kubectl_command(Path("kcp")), find_kubectl()) == ("kubectl --kubeconfig kcp", tmp_path / "kubectl")


@pytest.mark.parametrize(
    ("system", "machine", "named"),
    [
        ("linux", "x86_64", "linux-amd64"),
        ("linux", "aarch64", "linux-arm64"),
        ("linux", "s390x", "linux-s390x"),
        ("darwin", "arm64", "darwin-arm64"),
        ("darwin", "x86_64", "darwin-amd64"),
        ("win32", "AMD64", "win32-amd64"),
    ],
)
def test_platform_has_the_names_of_releases(system: str, machine: str, named: str) -> None:
    assert str(Platform.named(system, machine)) == named
