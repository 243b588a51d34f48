"""The hostile server as a process."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(eq=False)
class HostileProcess:
    """A running `tests.attack.hostile_server`. `bait` counts the connections to where it redirects."""

    process: asyncio.subprocess.Process
    host: str = ""
    bait: int = 0

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for _ in self.process.stdout:
            self.bait += 1


@asynccontextmanager
async def hostile_server(upstream: str) -> AsyncIterator[HostileProcess]:
    """Run it before a good server, given by its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.attack.hostile_server", upstream, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    running = HostileProcess(process)
    try:
        running.host = f"127.0.0.1:{int(await process.stdout.readline())}"
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(running.read())
            yield running
            reading.cancel()
    finally:
        process.terminate()
        await process.wait()
