"""The Watcher as a process of its own, between a test in the API server's place and a control plane of the test's."""

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec

from http_guard import Bounds, server_for
from kyma_certs import KeyPair, LeafRequest, create_ca, issue
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child
from tests.waiting import eventually

NOW = datetime.now(UTC)
CA = create_ca("ca", lifetime=timedelta(days=2), now=NOW)
CONTEXT = ssl.create_default_context(cadata=CA.certificate_pem.decode())
SERVER_NAME = "skr-webhook.kyma-system.svc"
WATCHER = Path(sys.executable).with_name("skr-watcher")
SHED = "watcher_admission_request_shed_total"
# Time enough for a machine that stands still: what the control plane asks of a connection is not the point here.
LONG_TIMEOUTS = Bounds(connections=50, request_seconds=60.0, tls_seconds=60.0)


@dataclass(eq=False)
class ControlPlane:
    """Takes events, or answers as `status` says, so many seconds late."""

    port: int = field(default_factory=free_port)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    delay_seconds: float = 0.0

    async def __call__(self, _: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.requests += 1
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if self.status == 200:
            self.take(msgspec.json.decode(body))
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send(
            {"type": "http.response.start", "status": self.status, "headers": [*headers, (b"content-length", b"0")]}
        )
        await send({"type": "http.response.body", "body": b""})

    def take(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def reported(self, operation: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["operation"] == operation]

    def objects(self, operation: str) -> set[str]:
        """Return the names of the objects of an operation's events; an event whose answer was late is sent again."""
        return {event["watched"]["Name"] for event in self.reported(operation)}


@dataclass(eq=False)
class Watcher:
    process: ChildProcess
    admission_port: int
    metrics_port: int
    log: Path
    api_server: httpx.AsyncClient

    async def review(self, name: str, *, operation: str = "UPDATE", **request: Any) -> httpx.Response:
        """Ask as the API server does about a change of an object."""
        return await self.api_server.post("/validate/lifecycle-manager", content=review(name, operation, **request))

    async def notices(self, send: Callable[[], Awaitable[object]]) -> None:
        """Send reviews, and again if some were allowed without inspection, as they are for a second after a stall.

        A RESYNC makes up for those, which a test that waits for the events of its objects has nothing of.
        """

        async def nothing_was_shed() -> bool:
            before = (await self.metrics())[SHED]
            await send()
            return (await self.metrics())[SHED] == before

        await eventually(nothing_was_shed, within=60, every=0.2)

    async def metrics(self) -> dict[str, float]:
        async with httpx.AsyncClient(verify=CONTEXT, trust_env=False, timeout=60) as client:
            answer = await client.get(f"http://127.0.0.1:{self.metrics_port}/metrics")
        lines = [line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def cpu_seconds(self) -> float:
        """Return how long the process has had the processor."""
        return cpu_seconds(self.process.pid)

    def peak_megabytes(self) -> float:
        """Return the most memory that the process has had, in megabytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
        raise AssertionError("the kernel does not say")


def review(name: str, operation: str = "UPDATE", *, padding: int = 0, spec: Any = 1, **request: Any) -> bytes:
    """Return an AdmissionReview as an API server writes it."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "7", "generation": 1}
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": {"pad": "x" * padding}}
    body: dict[str, Any] = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": f"review-{name[:40]}",
            "kind": {"group": "example.com", "version": "v1", "kind": "Thing"},
            "name": name,
            "namespace": "default",
            "operation": operation,
            "object": thing | {"spec": {"pad": "x" * padding, "a": spec}},
            "oldObject": thing,
        }
        | request,
    }
    return msgspec.json.encode(body)


@asynccontextmanager
async def serving(control_plane: ControlPlane, folder: Path) -> AsyncIterator[None]:
    cert, key = write_leaf(folder, "kcp")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = server_for(control_plane, "127.0.0.1", control_plane.port, bounds=LONG_TIMEOUTS, tls=context)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        await eventually(lambda: server.started)
        yield
        server.should_exit = True


async def start_watcher(
    stack: AsyncExitStack,
    folder: Path,
    kcp_port: int,
    environment: dict[str, str],
    *,
    admission_port: int = 0,
    program: tuple[str, ...] = (str(WATCHER),),
) -> Watcher:
    """Start a Watcher, on a port that is given or free, and wait until it is ready."""
    mount = folder / "tls"
    mount.mkdir(exist_ok=True)
    pair = _leaf("runtime", SERVER_NAME)
    for name, content in (
        ("tls.crt", pair.certificate_pem),
        ("tls.key", pair.key_pem),
        ("ca.crt", CA.certificate_pem),
    ):
        (mount / name).write_bytes(content)
    admission, metrics = admission_port or free_port(), free_port()
    log = folder / f"watcher-{admission}.log"
    process = await start_child(
        "skr-watcher",
        program,
        log,
        {
            **os.environ,
            "WEBHOOK_HOST": "127.0.0.1",
            "METRICS_HOST": "127.0.0.1",
            "WEBHOOK_PORT": str(admission),
            "METRICS_PORT": str(metrics),
            "TLS_CERT": str(mount / "tls.crt"),
            "TLS_KEY": str(mount / "tls.key"),
            "CA_CERT": str(mount / "ca.crt"),
            "KCP_ADDR": f"127.0.0.1:{kcp_port}",
            **environment,
        },
    )
    stack.push_async_callback(process.stop)
    client = await stack.enter_async_context(
        httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{admission}",
            verify=CONTEXT,
            headers={"host": SERVER_NAME},
            timeout=60,
            trust_env=False,
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=20),
        )
    )
    watcher = Watcher(process, admission, metrics, log, client)
    await eventually(lambda: _listens(watcher), within=120, what=f"the readiness that {log} speaks of")
    return watcher


async def _listens(watcher: Watcher) -> bool:
    async with httpx.AsyncClient(verify=CONTEXT, trust_env=False) as client:
        try:
            answer = await client.get(f"http://127.0.0.1:{watcher.metrics_port}/readyz")
        except httpx.TransportError:  # it does not listen yet, or is slow to answer
            return False
    return answer.status_code == 200


def cpu_seconds(pid: int) -> float:
    """Return how long a process has had the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_leaf(folder: Path, name: str, dns_name: str = SERVER_NAME) -> tuple[Path, Path]:
    """Write a certificate for this machine and its key into files."""
    pair = _leaf(name, dns_name)
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    cert.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    return cert, key


def _leaf(common_name: str, dns_name: str) -> KeyPair:
    request = LeafRequest(
        common_name=common_name,
        dns_names=(dns_name,),
        ip_addresses=("127.0.0.1",),
        lifetime=timedelta(days=1),
    )
    return issue(CA, request, now=NOW)


class Connection:
    """One connection to the Watcher as an API server keeps it, that costs little itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator["Connection"]:
        """Open a connection, and close it in the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=CONTEXT, server_hostname=SERVER_NAME)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    async def post(self, body: bytes, path: str = "/validate/lifecycle-manager") -> tuple[int, bytes]:
        """Send a request; return the status and the body of its answer."""
        head = f"POST {path} HTTP/1.1\r\nhost: {SERVER_NAME}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(answer[9:12]), await self._reader.readexactly(length)
