"""HTTP servers of tests on loopback, which answer by one function."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

MAX_BYTES = 64 * 1024 * 1024
WITHOUT_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: each would load all CAs of the machine, which takes 20 ms. It trusts none."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    handler: Handler, tls: ssl.SSLContext | None = None, *, name: str = "127.0.0.1", handler_cancellation: bool = False
) -> AsyncIterator[str]:
    """Serve one handler, whatever is asked; give the host with its port."""
    application = web.Application(client_max_size=MAX_BYTES)
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=0.1, handler_cancellation=handler_cancellation
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{name}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
