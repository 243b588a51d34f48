"""Child processes that end with their parent, however that ends; their output goes to a file."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 30.0  # as for a Pod; the programs need up to 10 s to deliver pending events
PR_SET_PDEATHSIG = 1


@dataclass(eq=False, slots=True)
class ChildProcess:
    """A running child process; `log` is the file of its output."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, None while it runs."""
        return self.process.returncode

    async def stop(self, grace_seconds: float = STOP_SECONDS) -> None:
        """Send SIGTERM, and SIGKILL after the grace time; without one SIGKILL at once."""
        if self.returncode is not None:
            return
        if not grace_seconds:
            await self.kill()
            return
        self.process.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                await self.process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Send SIGKILL."""
        if self.returncode is None:
            self.process.kill()
        await self.process.wait()


async def start_child(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> ChildProcess:
    """Start a child process; its output is appended to a file. Raises FileNotFoundError for a missing program."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment) if environment is not None else None,
            preexec_fn=_die_with_parent(os.getpid()),
        )
    return ChildProcess(name, process, log)


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _die_with_parent(parent: int) -> Callable[[], None]:
    """Return a preexec_fn: the kernel ends the child with its parent, and Ctrl-C in a terminal reaches the parent only,
    which then stops its children in order."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        os.setpgrp()
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent has ended meanwhile
                os.kill(os.getpid(), signal.SIGKILL)

    return prepare
