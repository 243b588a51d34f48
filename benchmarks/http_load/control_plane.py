"""A control plane that accepts every event after a delay, as a process of its own: the load is not to wait for it.

Arguments: port, cert, key, and seconds until it answers.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvloop

from http_guard import server_for
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child
from tests.waiting import eventually
from tests.watcher_process import LONG_TIMEOUTS, ControlPlane, write_leaf


async def start_control_plane(stack: AsyncExitStack, folder: Path, delay: float | None) -> int:
    """Start one that answers so many seconds late, and return its port; without a delay nothing listens there."""
    port = free_port()
    if delay is not None:
        cert, key = write_leaf(folder, "kcp")
        command = (sys.executable, "-m", "benchmarks.http_load.control_plane", str(port), str(cert), str(key))
        process = await start_child("control plane", (*command, str(delay)), folder / "kcp.log", dict(os.environ))
        await stack.enter_async_context(_ending(process))
        await eventually(lambda: _listens(port))
    return port


@asynccontextmanager
async def _ending(process: ChildProcess) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await process.kill()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def main() -> None:
    """Serve until killed."""
    port, cert, key, delay = sys.argv[1:5]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    app = ControlPlane(delay_seconds=float(delay))
    uvloop.run(server_for(app, "127.0.0.1", int(port), bounds=LONG_TIMEOUTS, tls=context).serve())


if __name__ == "__main__":
    main()
