"""The ports that look inside: /healthz and /readyz for the kubelet, /metrics for Prometheus."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def serve_probes(
    health: tuple[str, int], metrics: tuple[str, int], *, ready: Callable[[], bool], registry: CollectorRegistry
) -> AsyncIterator[None]:
    """Serve probes and metrics, each on an address of its own, while the block runs. Port 0 is any free one."""
    async with (
        _serve(health, {"/healthz": _alive, "/readyz": _readiness(ready)}),
        _serve(metrics, {"/metrics": _metrics(registry)}),
    ):
        yield


@asynccontextmanager
async def _serve(address: tuple[str, int], handlers: dict[str, Handler]) -> AsyncIterator[None]:
    application = web.Application(client_max_size=1024)
    application.add_routes([web.get(path, handler) for path, handler in handlers.items()])
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, *address).start()
        yield
    finally:
        await runner.cleanup()


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _readiness(ready: Callable[[], bool]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="the caches are filling, or the process is stopping\n")

    return answer


def _metrics(registry: CollectorRegistry) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        # A large registry takes long enough to render that the event loop would notice.
        body = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer
