"""The JSON document of a run: the figures, with the machine, the versions and the commit that they were measured on."""

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.figures import Figure

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("kyma-lifecycle-manager", "kube-runtime", "aiohttp", "msgspec", "uvloop")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine of a run; `load` is its load average of one minute at the start, without which times mean little."""

    processor: str
    cores: int
    memory_mb: int
    system: str
    load: float


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one run. `failed` names the programs that ended with an error or missed a bar."""

    began: str
    commit: str
    machine: Machine
    versions: dict[str, str]
    figures: list[Figure]
    failed: list[str]

    def write(self, path: Path) -> None:
        """Write the document, in lines for people who compare two with diff."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


def read_document(path: Path) -> Document:
    """Read a document. Raises ValueError with the path if it is not one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Document)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from error


def read_figures(printed: Iterable[str], program: str) -> list[Figure]:
    """Return the figures among the printed lines of a program; other lines are ignored."""
    found = []
    for line in printed:
        try:
            found.append(msgspec.structs.replace(msgspec.json.decode(line, type=Figure), program=program))
        except msgspec.DecodeError:
            continue
    return found


def current_machine() -> Machine:
    """Describe this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return Machine(
        processor=models[0] if models else platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        system=f"{platform.system()} {platform.release()}",
        load=round(os.getloadavg()[0], 1),
    )


def current_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide how fast the programs are."""
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def current_commit() -> str:
    """Return the commit of the working tree, with `-dirty` if files differ from it; `unknown` without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def now() -> str:
    """Return the time as in file names: UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
