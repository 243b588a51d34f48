"""The part of kube-proxy and load balancers: a port that forwards to several others in turn."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from kyma_local.joining import Streams, join

Ports = Callable[[], Sequence[int]]
CONNECT_SECONDS = 5.0


@asynccontextmanager
async def balancer(targets: Ports) -> AsyncGenerator[int, None]:
    """Forward a port of this machine to the ports that `targets` returns, each connection to the next of them.

    A port that refuses is skipped, so a Pod that ended causes no failures before the node knows it. If none is left,
    the connection is closed. Connections to a port that is no longer a target stay open, as with kube-proxy.
    """
    balancing = _Balancer(targets)
    server = await asyncio.start_server(balancing.forward, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await balancing.close()


class _Balancer:
    """Forwards connections; keeps a record of the open ones, so that none outlives it."""

    def __init__(self, targets: Ports) -> None:
        self._targets = targets
        self._turn = 0
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until one of its sides has closed it."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            found = await self._connect()
            if found is not None:
                await join((reader, writer), found)
        finally:
            writer.close()
            del self._open[task]

    async def close(self) -> None:
        ending = dict(self._open)
        for writer in ending.values():
            writer.transport.abort()
        if ending:
            await asyncio.wait(ending)

    async def _connect(self) -> Streams | None:
        """Connect to the first target that accepts, starting with the next one in turn."""
        targets = tuple(self._targets())
        self._turn += 1
        for nth in range(len(targets)):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection("127.0.0.1", targets[(self._turn + nth) % len(targets)])
        return None
