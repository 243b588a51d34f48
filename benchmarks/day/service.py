"""In the place of a Service: passes connections on to a port of one of the replicas that are ready."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress


async def serve(port: int, targets: Callable[[], Sequence[int]]) -> None:
    """Listen on a port and pass connections on, until cancelled. `targets` returns the ports that are ready."""
    chance = random.Random(port)  # noqa: S311 - which replica does not matter

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = targets()
        try:
            theirs = await asyncio.open_connection("127.0.0.1", chance.choice(ready)) if ready else None
        except OSError:
            theirs = None
        if theirs is None:
            writer.transport.abort()
            return
        both = [asyncio.ensure_future(_copy(reader, theirs[1])), asyncio.ensure_future(_copy(theirs[0], writer))]
        with suppress(asyncio.CancelledError):
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        for each in (writer, theirs[1]):
            each.transport.abort() if each.transport.is_closing() else each.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", port, backlog=1_000)
    async with server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
