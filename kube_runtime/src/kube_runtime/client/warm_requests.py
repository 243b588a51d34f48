"""Requests on a warm connection, without what aiohttp makes of each request and one to an API server never needs.

aiohttp takes 0.1 ms of CPU for a request, twice what the connection takes. So a request is written to a connection of
aiohttp's pool, and its answer is read by aiohttp's parser. Where no connection is warm, aiohttp opens one and sends the
request. Pool and parser are what aiohttp has for itself, so the dependency ends before its next minor version.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

import aiohttp
from aiohttp.client import IDEMPOTENT_METHODS
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

from kube_runtime.client.bodies import PART_BYTES, Fence
from kube_runtime.client.options import ClientOptions

__all__ = ["WarmMessage", "WarmResponse", "message_of", "send_warm"]

_SWITCHING = 101
_FIRST_FINAL = 200


@dataclass(frozen=True, slots=True)
class WarmMessage:
    """A request as it is sent. One that is idempotent may be sent again where its connection was closed."""

    sent: bytes
    is_idempotent: bool


@dataclass(frozen=True, slots=True)
class WarmResponse:
    """A response whose body may still arrive."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader


def message_of(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> WarmMessage | None:
    """Return a request as it is sent; None where it is large, or has a character that aiohttp has to judge."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    if len(body or b"") > PART_BYTES or " " in target or "#" in target or not all(map(str.isprintable, lines)):
        return None
    return WarmMessage("\r\n".join((*lines, "", "")).encode() + (body or b""), method in IDEMPOTENT_METHODS)


async def send_warm(
    session: aiohttp.ClientSession,
    key: ConnectionKey,
    message: WarmMessage,
    *,
    fence: Fence | None,
    read: Callable[[WarmResponse], Awaitable[bytes]],
    options: ClientOptions,
) -> tuple[WarmResponse, bytes] | None:
    """Send a message on a warm connection, and return the response with its body; None where no connection is warm.

    The fence is checked right before the message is sent. `read` returns the body. Raises what aiohttp raises.
    """
    connector = session.connector
    connection = None if connector is None else await connector._get(key, [])  # noqa: SLF001 - see above
    if connection is None:
        return None
    try:
        protocol = cast("ResponseHandler", connection.protocol)
        protocol.set_response_params(
            read_until_eof=True, auto_decompress=options.compression, read_bufsize=options.read_buffer_bytes
        )
        if fence is not None:
            fence()
        cast("asyncio.Transport", protocol.transport).write(message.sent)
        while True:
            head, content = await protocol.read()
            if head.code == _SWITCHING or head.code >= _FIRST_FINAL:
                break
        response = WarmResponse(head.code, head.headers, content)
        body = await read(response)
    except BaseException:
        connection.close()
        raise
    connection.release()
    return response, body
