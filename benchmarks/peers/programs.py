"""Starts the programs that are compared, reads what they report, and measures them from outside.

A program reports what it reached as one JSON object a line. Everything else that it prints stays in its log, whose end
is shown where it ends by itself.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
from rich.console import Console

from benchmarks.peers.controller_runtime_build import built_peer, peer_program
from benchmarks.peers.cpu_time import cpu_seconds
from kyma_local.processes import ChildProcess, start_child, tail
from kyma_local.progress import progress_on

__all__ = ["CONTROLLER_RUNTIME", "KOPF", "OURS", "Program", "Role", "Running", "prepared", "running"]

Program = Literal["kube_runtime", "kopf", "controller-runtime"]
Role = Literal["cache", "reconcile", "queue"]
OURS: Program = "kube_runtime"
KOPF: Program = "kopf"
CONTROLLER_RUNTIME: Program = "controller-runtime"
PROGRAMS: tuple[Program, ...] = (OURS, KOPF, CONTROLLER_RUNTIME)

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Running:
    """A program that runs."""

    child: ChildProcess

    async def reported(self, what: str, within_seconds: float = 300.0) -> dict[str, Any]:
        """Wait until the program reports something, and return it. Raises RuntimeError where it ends before."""
        async with asyncio.timeout(within_seconds):
            while True:
                for line in self.child.log.read_bytes().splitlines(keepends=True):
                    if (
                        line.startswith(b'{"')
                        and line.endswith(b"}\n")
                        and what in (found := msgspec.json.decode(line))
                    ):
                        return dict(found)
                if self.child.returncode is not None:
                    raise RuntimeError(f"{self.child.name} has ended:\n{tail(self.child.log)}")
                await asyncio.sleep(POLL_SECONDS)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the program has used, in all its threads."""
        return cpu_seconds(self.child.pid)

    def peak_mib(self) -> float:
        """Return the most memory that the program ever had."""
        for line in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"{self.child.name} has ended:\n{tail(self.child.log)}")


def prepared(*, peers: bool = True) -> tuple[Program, ...]:
    """Return the programs, ours first, ready to be started: the one in Go may have to be built. Takes its time."""
    if not peers:
        return (OURS,)
    with progress_on(Console(stderr=True)) as listener:
        peer_program(listener)
    return PROGRAMS


@asynccontextmanager
async def running(program: Program, role: Role, *arguments: str) -> AsyncIterator[Running]:
    """Run a program in a role, until the end of the block."""
    with TemporaryDirectory(prefix="peer-") as folder:
        child = await start_child(program, [*_command(program, role), *arguments], Path(folder) / "log")
        try:
            yield Running(child)
        finally:
            await child.kill()


def _command(program: Program, role: Role) -> list[str]:
    match program:
        case "kube_runtime":
            return [sys.executable, "-m", "benchmarks.peers.runtime", f"--role={role}"]
        case "kopf":
            return [sys.executable, "-m", f"benchmarks.peers.kopf_{role}"]
        case "controller-runtime":
            return [str(built_peer()), f"--role={role}"]
