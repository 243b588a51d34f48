"""A server that can be reached and does not answer, or a wire to one that does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kyma_local.joining import join


@dataclass(eq=False)
class BlackHole:
    """Takes connections and says nothing, until it is told to pass them on."""

    target: tuple[str, int]
    connections: int = 0
    passing: bool = False
    port: int = 0
    _open: list[asyncio.StreamWriter] = field(default_factory=list)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None, None]:
        """Listen for a while."""
        server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            self.close()
            server.close()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection."""
        self.connections += 1
        self._open.append(writer)
        if not self.passing:
            await reader.read(-1)
            writer.close()
            return
        back_reader, back_writer = await asyncio.open_connection(*self.target)
        self._open.append(back_writer)
        await join((reader, writer), (back_reader, back_writer))

    def close(self) -> None:
        """End what is open."""
        for writer in self._open:
            writer.close()
        self._open.clear()

    def swallow(self) -> None:
        """Pass nothing on any more, and end what is open."""
        self.passing = False
        self.close()
