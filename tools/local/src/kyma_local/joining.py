"""Joins two connections: data from each is sent to the other."""

import asyncio
from contextlib import suppress

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
CHUNK = 65536


async def join(near: Streams, far: Streams) -> None:
    """Copy in both directions until both sides have ended; the end of one side ends the writing to the other."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pump(near[0], far[1]))
            tasks.create_task(_pump(far[0], near[1]))
    finally:
        far[1].close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while (chunk := await reader.read(CHUNK)) and not writer.is_closing():
            writer.write(chunk)
            await writer.drain()
    with suppress(OSError):
        writer.close()
