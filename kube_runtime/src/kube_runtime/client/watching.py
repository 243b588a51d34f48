"""Following a resource: the lines of one watch, decoded as they arrive and handed on in the same turn of the loop."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

import aiohttp

from kube_runtime.client.transport import Transport
from kube_runtime.exceptions import ClusterUnreachable, ResponseInvalid

__all__ = ["watch_lines"]

T = TypeVar("T")


async def watch_lines(transport: Transport, target: str) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines of one watch, all that came at once together. Ends when the server ends the watch.

    Raises ApiError, ClusterUnreachable (also for a watch that is silent or ends in the middle of a line) and
    ResponseInvalid.
    """
    async with transport.stream(target) as content:
        async for lines in _lines(content, transport.options.max_event_bytes):
            yield lines


async def _lines(content: aiohttp.StreamReader, max_bytes: int) -> AsyncIterator[list[bytes]]:
    parts: list[bytes] = []
    pending = 0
    while chunk := await content.readany():
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            parts.append(head)
            lines = b"".join(parts).split(b"\n")
            parts, pending = ([tail], len(tail)) if tail else ([], 0)
            yield [line for line in lines if line]
        else:
            parts.append(chunk)
            pending += len(chunk)
        if pending > max_bytes:
            raise ResponseInvalid(f"a line of the watch is longer than {max_bytes} bytes")
    if pending:
        raise ClusterUnreachable("the watch ended in the middle of a line")
