"""One small HTTP port for the kubelet and Prometheus: /healthz, /readyz and /metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

__all__ = ["serve_health"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve_health(
    host: str, port: int, ready: Callable[[], bool], registry: CollectorRegistry
) -> AsyncIterator[int]:
    """Serve while the block runs and yield the port, which is a free one where 0 was asked for."""
    application = web.Application()
    application.add_routes(
        [
            web.get("/healthz", _healthy),
            web.get("/readyz", _readiness(ready)),
            web.get("/metrics", _metrics(registry)),
        ]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _readiness(ready: Callable[[], bool]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if ready() else web.Response(status=503, text="the caches are filling\n")

    return answer


def _metrics(registry: CollectorRegistry) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer
