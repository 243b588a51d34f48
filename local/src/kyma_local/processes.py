"""Child processes that never outlive their parent, however that ends, with their output in a file."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 30.0  # as a Pod has: the programs take 10 to deliver what they hold
PR_SET_PDEATHSIG = 1


@dataclass(eq=False, slots=True)
class ChildProcess:
    """A running child. `log` has what it prints."""

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
        """Ask it to end, and end it when it does not within the grace time."""
        if self.returncode is not None:
            return
        self.process.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                await self.process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it at once."""
        if self.returncode is None:
            self.process.kill()
        await self.process.wait()


async def start_child(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> ChildProcess:
    """Start a child whose output is appended to a file. Raises FileNotFoundError for a missing program."""
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
    """Return what a child does before it becomes the program: have the kernel end it with its parent, and leave the
    terminal's process group, so that Ctrl-C reaches the parent alone and children are ended in order."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        os.setpgrp()
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent died in between
                os.kill(os.getpid(), signal.SIGKILL)

    return prepare
