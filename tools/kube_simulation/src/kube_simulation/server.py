"""One listening socket for all simulated clusters, distinguished by the path: /clusters/NAME."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from aiohttp import web

from kube_simulation.cluster import ClusterSettings, SimulatedCluster
from kube_simulation.records import Records, RequestRecord
from kube_simulation.refusals import Refused, too_large, unknown_path
from kube_simulation.requests import Answer, ConnectionDropped, request_of

_PREFIX = "/clusters/"
MAX_BODY_BYTES = 3 * 1024 * 1024
_SHUTDOWN_SECONDS = 1.0


class Simulation:
    """Clusters by name, and their requests."""

    def __init__(self, settings: ClusterSettings, records: int) -> None:
        self.address = ""
        self.records = Records(records)
        self._settings = settings
        self._clusters: dict[str, SimulatedCluster] = {}

    @property
    def clusters(self) -> tuple[SimulatedCluster, ...]:
        """All clusters that there are."""
        return tuple(self._clusters.values())

    def cluster(self, name: str) -> SimulatedCluster:
        """Return the cluster of a name, a new one where there is none."""
        if not name or "/" in name:
            raise ValueError(f"{name!r} is an invalid name of a cluster")
        found = self._clusters.get(name)
        if found is None:
            server = f"{self.address}{_PREFIX}{name}"
            found = self._clusters[name] = SimulatedCluster(name, server, self._settings, self.records)
        return found

    def remove(self, name: str) -> None:
        """Take a cluster away with all that is in it."""
        found = self._clusters.pop(name, None)
        if found is not None:
            found.end_watches()

    def requests(
        self, matches: Callable[[RequestRecord], bool] = lambda _: True, *, since: int = 0
    ) -> list[RequestRecord]:
        """Return the last requests that match, oldest first."""
        return self.records.those(matches, since=since)

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        name, _, target = http.raw_path.removeprefix(_PREFIX).partition("/")
        cluster = self._clusters.get(name) if http.raw_path.startswith(_PREFIX) else None
        if cluster is None:
            return _response(Answer.refusing(unknown_path()))
        try:
            body = await _body(http) if http.can_read_body else b""
        except Refused as refused:
            return _response(Answer.refusing(refused))
        headers = http.headers
        request = request_of(
            name, http.method, f"/{target}", body, headers.get("Content-Type", ""), headers.get("User-Agent", "")
        )
        try:
            answer = await cluster.respond(request)
            return _response(answer) if answer.watch is None else await _stream(http, answer.watch)
        except ConnectionDropped:
            return _dropped(http)


@asynccontextmanager
async def serve_simulation(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    history: int = 1_000,
    bookmark_seconds: float = 60.0,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    records: int = 10_000,
) -> AsyncIterator[Simulation]:
    """Serve simulated clusters within a block. `records` is how many requests are remembered.

    The rest of the settings is explained at ClusterSettings. With `port` 0 the system chooses one.
    """
    settings = ClusterSettings(history=history, bookmark_seconds=bookmark_seconds, clock=clock)
    simulation = Simulation(settings, records)
    server = web.Server(simulation.handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls, backlog=4096).start()
        bound = runner.addresses[0][1]
        simulation.address = f"{'http' if tls is None else 'https'}://{host}:{bound}"
        yield simulation
    finally:
        for cluster in simulation.clusters:
            cluster.end_watches()
        await asyncio.sleep(0)
        await runner.cleanup()


async def _body(http: web.BaseRequest) -> bytes:
    """Return the body of a request. Raises Refused for one that is larger than a real server takes."""
    if (http.content_length or 0) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    parts: list[bytes] = []
    size = 0
    while chunk := await http.content.readany():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        parts.append(chunk)
    return b"".join(parts)


def _response(answer: Answer) -> web.Response:
    headers = {"Content-Type": answer.content_type}
    if answer.retry_after_seconds is not None:
        headers["Retry-After"] = str(answer.retry_after_seconds)
    return web.Response(status=answer.code, body=answer.body, headers=headers)


def _dropped(http: web.BaseRequest) -> web.Response:
    """Close the connection abruptly; the response is not sent."""
    if http.transport is not None:
        http.transport.abort()
    return web.Response(status=500)


async def _stream(http: web.BaseRequest, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(http)
    with suppress(ConnectionResetError):  # a client that is gone ends its watch
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
    return response
