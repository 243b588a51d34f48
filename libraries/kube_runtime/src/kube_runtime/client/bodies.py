"""The body of a request, with a check of the lease right before it is sent.

A process can be frozen at any point and go on long after another one has taken over. The lease is therefore checked at
the latest moment possible: when the bytes go to the socket. aiohttp sends the head of a request together with its body,
so a request that is stopped here was never sent.
"""

import asyncio
from collections.abc import Callable

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

PART_BYTES = 128 * 1024
"""What is encrypted and sent in one iteration of the event loop."""

Fence = Callable[[], None]
"""Raises where a write is not allowed (any more)."""


class RequestBody(Payload):
    """Bytes to send, if the fence still allows it when they are sent."""

    _value: bytes
    _autoclose = True

    def __init__(self, value: bytes, content_type: str, fence: Fence | None = None) -> None:
        super().__init__(value, content_type=content_type)
        self._size = len(value)
        self._fence = fence

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Send the body, or as much of it, in parts."""
        if self._fence is not None:
            self._fence()
        length = len(self._value) if content_length is None else min(content_length, len(self._value))
        for begin in range(0, length, PART_BYTES):
            if begin:
                await asyncio.sleep(0)
            await writer.write(self._value[begin : min(begin + PART_BYTES, length)])
