"""What kube-proxy and load balancers do: a port that leads to several others in turn, whichever are there just now."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from kyma_local.joining import Streams, join

Ports = Callable[[], Sequence[int]]
CONNECT_SECONDS = 5.0


@asynccontextmanager
async def balancer(targets: Ports) -> AsyncGenerator[int, None]:
    """Lead a port of this machine to those that `targets` tells; each connection to the next of them.

    One that refuses is passed over, so that a Pod's end is not felt before it is known. Where none is left, the
    connection is closed. What was led to a target that is not told any more goes on, as it does with kube-proxy.
    """
    balancing = _Balancer(targets)
    server = await asyncio.start_server(balancing.lead, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await balancing.close()


class _Balancer:
    """Leads connections; knows which are open, so that none outlives it."""

    def __init__(self, targets: Ports) -> None:
        self._targets = targets
        self._turn = 0
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one connection until one of its sides has closed it."""
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
        """End every connection."""
        ending = dict(self._open)
        for writer in ending.values():
            writer.transport.abort()
        if ending:
            await asyncio.wait(ending)

    async def _connect(self) -> Streams | None:
        """Connect to the first that lets us, from the one whose turn it is."""
        targets = tuple(self._targets())
        self._turn += 1
        for nth in range(len(targets)):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection("127.0.0.1", targets[(self._turn + nth) % len(targets)])
        return None
