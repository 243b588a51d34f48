"""The way from the Lifecycle Manager to a user cluster, which a test can cut: as if the cluster were removed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from kyma_local.ports import free_port


@dataclass(eq=False)
class Link:
    """Forwards `port` to the port of an API server, unless it is cut."""

    target: int
    port: int = field(default_factory=free_port)
    is_cut: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None, None]:
        """Forward until the block ends."""
        server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        try:
            yield
        finally:
            server.close()
            self._close_all()

    @asynccontextmanager
    async def cut(self) -> AsyncGenerator[None, None]:
        """Close all connections, and refuse others, until the block ends."""
        self.is_cut = True
        self._close_all()
        try:
            yield
        finally:
            self.is_cut = False

    def _close_all(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there, other = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, other}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, other))
                tasks.create_task(_copy(there, writer))
        finally:
            for each in (writer, other):
                self._writers.discard(each)
                each.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
