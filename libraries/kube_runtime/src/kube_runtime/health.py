"""Health probes and metrics, served by a thread of their own.

A blocked event loop can't report that it is blocked. The loop sets a timestamp periodically, and a separate thread
answers the kubelet's probes and Prometheus: it detects when the timestamp is late, and reports where the loop hangs.
"""

import asyncio
import logging
import selectors
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from kube_runtime.exceptions import AddressUnusable

log = logging.getLogger(__name__)
BLOCKED_SECONDS, BLOCKED_TIMES = 1.0, 4
MAX_CONNECTIONS = 32
"""Each has a thread. Above that number the oldest is closed: a probe takes milliseconds, so its client is slow."""
_LIBRARIES = ("<frozen", *{sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib")})
_LOOP_FILES = (selectors.__file__, asyncio.base_events.__file__, asyncio.runners.__file__)

Check = Callable[[], bool | str]
"""Returns true, or false or a text that says why not."""


class LoopMonitor:
    """Measures for how long the event loop is blocked, and logs where. `run` on the loop; read from any thread."""

    def __init__(self, *, interval_seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self.worst_lag_seconds = 0.0
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._due: float | None = None
        self._thread_id = 0

    async def run(self) -> None:
        """Set the timestamp periodically until cancelled."""
        self._thread_id = threading.get_ident()
        ended = threading.Event()
        threading.Thread(target=self._warn, args=(ended,), name="loop monitor", daemon=True).start()
        try:
            while True:
                self._due = self._clock() + self._interval_seconds
                await asyncio.sleep(self._interval_seconds)
                self.worst_lag_seconds = max(self.worst_lag_seconds, self._clock() - self._due)
        finally:
            self._due = None
            ended.set()

    def blocked_seconds(self) -> float:
        """Return for how many seconds the loop has been blocked; 0 where it is not monitored."""
        due = self._due
        return 0.0 if due is None else max(0.0, self._clock() - due)

    def where(self) -> str:
        """Return what blocks the loop right now, as file, line and function; nothing where it runs no code.

        It is the line of the program that calls a library, where there is one.
        """
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - there is no public way to another thread's stack
        found = ""
        while frame is not None and (file := frame.f_code.co_filename) not in _LOOP_FILES:
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            if not file.startswith(_LIBRARIES):
                return place
            found, frame = found or place, frame.f_back
        return found

    def _warn(self, ended: threading.Event) -> None:
        """Log each time that the loop is blocked for long, once.

        It counts how often it finds the same: where the whole process is slow, both threads are.
        """
        seen, times = None, 0
        while not ended.wait(BLOCKED_SECONDS / BLOCKED_TIMES):
            due = self._due
            times = times + 1 if due == seen and self.blocked_seconds() else 0
            seen = due
            if times == BLOCKED_TIMES and (where := self.where()):
                log.warning("the event loop is blocked at %s; asyncio.to_thread keeps it free", where)


class ProbeServer:
    """Answers /healthz, /readyz and /metrics from a thread of its own.

    - /healthz: the event loop was not blocked for longer than `tolerated_seconds`
    - /readyz: every check returns true; the answer names those that don't, and says why
    """

    def __init__(
        self,
        monitor: LoopMonitor,
        checks: Mapping[str, Check],
        *,
        registry: CollectorRegistry | None = None,
        tolerated_seconds: float = 10.0,
    ) -> None:
        self._monitor = monitor
        self._checks = dict(checks)
        self._registry = registry
        self._tolerated_seconds = tolerated_seconds

    @contextmanager
    def serving(self, host: str, port: int) -> Iterator[int]:
        """Serve inside the context, and yield the port. Raises AddressUnusable.

        Without a host it is served at every address, IPv6 and IPv4 where the machine has both.
        """
        try:
            server = _Server((host, port), self.answer)
        except (OSError, OverflowError) as error:  # the latter for a port beyond 65535
            why = getattr(error, "strerror", None) or error
            reason = f"probes and metrics can't be served at {host}:{port}: {why}"
            raise AddressUnusable(reason) from error
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="probes", daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, path: str, accept: str = "") -> tuple[int, str, bytes]:
        """Return status, content type and body of the answer to a path, in the format that the client accepts.

        Exemplars, which name the trace of a measured value, are part of OpenMetrics alone.
        """
        if path == "/healthz":
            return self._text(*self._healthy())
        if path == "/readyz":
            return self._text(*self._ready())
        if path == "/metrics" and self._registry is not None:
            encode, content_type = choose_encoder(accept)
            return 200, content_type, encode(self._registry)
        return self._text(404, "not found")

    def _healthy(self) -> tuple[int, str]:
        blocked = self._monitor.blocked_seconds()
        if blocked <= self._tolerated_seconds:
            return 200, "ok"
        return 503, f"the event loop has been blocked for {blocked:.1f} s at {self._monitor.where()}"

    def _ready(self) -> tuple[int, str]:
        found = {name: check() for name, check in self._checks.items()}
        missing = [f"{name} ({why})" if why else name for name, why in found.items() if why is not True]
        return (503, f"not ready: {', '.join(missing)}") if missing else (200, "ok")

    @staticmethod
    def _text(status: int, text: str) -> tuple[int, str, bytes]:
        return status, "text/plain; charset=utf-8", f"{text}\n".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], answer: Callable[[str, str], tuple[int, str, bytes]]) -> None:
        self.answer = answer
        self._open: dict[socket.socket, None] = {}
        self._changing = threading.Lock()
        if ":" in address[0] or (not address[0] and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6 and not self.server_address[0]:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Serve a connection in a thread, and close the oldest one if there are too many."""
        with self._changing, suppress(OSError):
            self._open[request] = None
            if len(self._open) > MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Close a connection."""
        with self._changing:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log why a request failed, as everything else is logged; a client that has gone is no failure."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            log.exception("a request for probes or metrics failed")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0  # a silent client is disconnected

    def do_GET(self) -> None:
        accept = self.headers.get("Accept", "")
        status, content_type, body = self.server.answer(self.path.partition("?")[0], accept)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Log nothing: probes come every few seconds."""
