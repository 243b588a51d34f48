"""A server that accepts connections and does not answer, or forwards them to one that does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kyma_local.joining import join


@dataclass(eq=False)
class UnresponsiveServer:
    """Accepts connections and does not answer; with `forwarding` it forwards them to the target."""

    target: tuple[str, int]
    connections: int = 0
    forwarding: bool = False
    port: int = 0
    _open: list[asyncio.StreamWriter] = field(default_factory=list)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None, None]:
        """Listen until the block ends."""
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            self.close()
            server.close()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.append(writer)
        if not self.forwarding:
            await reader.read(-1)
            writer.close()
            return
        back_reader, back_writer = await asyncio.open_connection(*self.target)
        self._open.append(back_writer)
        await join((reader, writer), (back_reader, back_writer))

    def close(self) -> None:
        for writer in self._open:
            writer.close()
        self._open.clear()

    def stop_forwarding(self) -> None:
        """Stop forwarding, and close all connections."""
        self.forwarding = False
        self.close()
