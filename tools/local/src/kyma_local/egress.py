"""How a local API server reaches Services: a CONNECT proxy on a unix socket instead of kube-proxy.

The API server requests `<ClusterIP>:<port>`; the proxy connects it to a process that is registered for that Service.
Several processes take turns, and a process that refuses is skipped. Registrations are lines of a file, so that other
processes can add some while the clusters run.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from kube_runtime import KubeError
from kyma_local.joining import Streams, join

ServiceAddress = Callable[[str, str], Awaitable[str | None]]
Connect = Callable[[str, int], Awaitable[Streams]]
MAX_CONNECTIONS = 500
HEAD_SECONDS = 30.0

Target = tuple[str, int]


class Route(msgspec.Struct, frozen=True):
    """A Service's port and the local process behind it; `others` are further processes."""

    namespace: str
    name: str
    port: int
    host: str
    target_port: int
    others: tuple[Target, ...] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """All processes behind the port."""
        return ((self.host, self.target_port), *self.others)


def add_route(routes_file: Path, route: Route) -> None:
    """Register a route; it replaces an earlier one for the same port of the Service."""
    with routes_file.open("ab") as file:
        file.write(msgspec.json.encode(route) + b"\n")


class EgressProxy:
    """Connects an API server to the processes behind Services. `address_of` returns a Service's ClusterIP.

    `connect` connects to what is not registered, on a node; without one, that is refused.
    """

    def __init__(
        self, socket: Path, routes_file: Path, address_of: ServiceAddress, *, connect: Connect | None = None
    ) -> None:
        self._socket = socket
        self._routes_file = routes_file
        self._address_of = address_of
        self._connect_on_node = connect
        self._targets: dict[str, deque[Target]] = {}
        self._read_bytes = 0
        self._resolving = asyncio.Lock()
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)

    async def serve(self, listening: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled. `listening` is called when connections are accepted."""
        server = await asyncio.start_unix_server(self._handle, self._socket)
        self._socket.chmod(0o600)
        listening()
        async with server:
            await server.serve_forever()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._slots:
                await self._connect(reader, writer)
        except (OSError, KubeError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a side has closed, or the Service is unknown; the other side is closed below
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        wanted = rest.partition(b" ")[0].decode("ascii", "replace")
        far_side = await self._open(wanted) if method == b"CONNECT" else None
        if far_side is None:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await join((reader, writer), far_side)

    async def _open(self, wanted: str) -> Streams | None:
        """Connect to the next process in turn that accepts; None if none does."""
        targets = await self._targets_in_turn(wanted)
        for host, port in targets:
            try:
                return await asyncio.open_connection(host, port)
            except OSError:
                continue
        if targets or self._connect_on_node is None:
            return None
        host, _, number = wanted.rpartition(":")
        try:
            return await self._connect_on_node(host, int(number))
        except OSError:
            return None

    async def _targets_in_turn(self, wanted: str) -> tuple[Target, ...]:
        async with self._resolving:  # while a route is being resolved, no connection uses the old one
            if wanted not in self._targets or self._size() != self._read_bytes:
                await self._resolve()
        targets = self._targets.get(wanted, deque())
        now = tuple(targets)
        targets.rotate(-1)
        return now

    def _size(self) -> int:
        """Return the size of the file, which only grows. Its mtime would miss a second change in the same moment."""
        return self._routes_file.stat().st_size if self._routes_file.exists() else 0

    async def _resolve(self) -> None:
        """Reload the registrations and the addresses of their Services. Raises KubeError; the next request retries."""
        content = self._routes_file.read_bytes() if self._routes_file.exists() else b""
        targets: dict[str, deque[Target]] = {}
        for line in content.splitlines():
            route = msgspec.json.decode(line, type=Route)
            address = await self._address_of(route.namespace, route.name)
            if address is not None:
                targets[f"{address}:{route.port}"] = deque(route.targets)
        self._targets, self._read_bytes = targets, len(content)
