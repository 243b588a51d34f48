"""An application that answers once it has the whole request, and a request for it."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

REQUEST = b"POST /x HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\nhi"
TIMEOUT = 60.0


async def app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Answer once the body is there; /early answers at once, without it."""
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def is_closed(reader: asyncio.StreamReader, within: float = TIMEOUT) -> bool:
    """Wait until the other side has closed the connection."""
    async with asyncio.timeout(within):
        try:
            while await reader.read(1024):
                pass
        except ConnectionError:
            return True  # closed in the hard way
    return True
