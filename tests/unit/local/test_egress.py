"""The egress proxy connects an API server to registered processes only."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kube_runtime import ClusterUnreachable
from kyma_local.egress import EgressProxy, Route, ServiceAddress, add_route
from tests.waiting import eventually

ADDRESSES = {("kyma-system", "skr-webhook"): "10.0.0.179"}


async def address_of(namespace: str, name: str) -> str | None:
    return ADDRESSES.get((namespace, name))


class SlowToSay:
    """Says where a Service is when it may, and fails at first where told to."""

    def __init__(self, *, failures: int = 0) -> None:
        self.failures = failures
        self.asked = 0
        self.may_say = asyncio.Event()
        self.may_say.set()

    async def __call__(self, namespace: str, name: str) -> str | None:
        self.asked += 1
        await self.may_say.wait()
        if self.failures:
            self.failures -= 1
            raise ClusterUnreachable("busy")
        return await address_of(namespace, name)


@asynccontextmanager
async def echoing(prefix: bytes) -> AsyncIterator[int]:
    """A server that sends each line back behind a prefix; gives its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(prefix + await reader.readline())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def proxy(folder: Path, answers: ServiceAddress = address_of) -> AsyncIterator[Path]:
    """A proxy; gives its socket."""
    socket, listening = folder / "s", asyncio.Event()
    serving = asyncio.create_task(EgressProxy(socket, folder / "routes", answers).serve(listening.set))
    await listening.wait()
    yield socket
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def ask(socket: Path, head: bytes, line: bytes = b"hello\n") -> tuple[bytes, bytes]:
    """Send a request head, then a line; return the first line of the answer and all that follows its head."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        async with asyncio.timeout(60):
            writer.write(head)
            answered = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0]
            if answered.endswith(b"OK"):
                writer.write(line)
            rest = await reader.read()
    finally:
        writer.close()
    return answered, rest


CONNECT = b"CONNECT 10.0.0.179:443 HTTP/1.1\r\nHost: 10.0.0.179:443\r\n\r\n"


async def test_second_route_of_a_port_replaces_the_first(tmp_path: Path) -> None:
    async with echoing(b"old: ") as old, echoing(b"new: ") as new, proxy(tmp_path) as socket:
        for port in (old, new):
            add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", port))
        assert (await ask(socket, CONNECT))[1] == b"new: hello\n"


async def test_unregistered_service_is_not_connected(tmp_path: Path) -> None:
    async with echoing(b"") as port, proxy(tmp_path) as socket:
        refused = b"HTTP/1.1 502 Bad Gateway"
        assert (await ask(socket, CONNECT))[0] == refused
        add_route(tmp_path / "routes", Route("kyma-system", "another", 443, "127.0.0.1", port))
        assert (await ask(socket, CONNECT))[0] == refused
        direct = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode()
        assert (await ask(socket, direct))[0] == refused
        assert (await ask(socket, CONNECT.replace(b"CONNECT", b"GET")))[0] == refused


async def test_process_that_refuses_is_skipped(tmp_path: Path) -> None:
    async with echoing(b"two: ") as two, proxy(tmp_path) as socket:
        others = (("127.0.0.1", two),)
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", 1, others))
        assert [(await ask(socket, CONNECT))[1] for _ in range(3)] == [b"two: hello\n"] * 3


async def test_route_added_in_the_same_moment_as_another_is_used(tmp_path: Path) -> None:
    async with echoing(b"old: ") as old, echoing(b"new: ") as new, proxy(tmp_path) as socket:
        routes = tmp_path / "routes"
        add_route(routes, Route("kyma-system", "skr-webhook", 443, "127.0.0.1", old))
        moment = routes.stat()
        assert (await ask(socket, CONNECT))[1] == b"old: hello\n"
        add_route(routes, Route("kyma-system", "skr-webhook", 443, "127.0.0.1", new))
        os.utime(routes, ns=(moment.st_atime_ns, moment.st_mtime_ns))
        assert (await ask(socket, CONNECT))[1] == b"new: hello\n"


async def test_no_connection_uses_the_old_address_while_the_new_one_is_resolved(tmp_path: Path) -> None:
    answers = SlowToSay()
    async with echoing(b"old: ") as old, echoing(b"new: ") as new, proxy(tmp_path, answers) as socket:
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", old))
        assert (await ask(socket, CONNECT))[1] == b"old: hello\n"
        asked = answers.asked
        answers.may_say.clear()
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", new))
        asking = [asyncio.create_task(ask(socket, CONNECT))]
        await eventually(lambda: answers.asked > asked)
        asking.append(asyncio.create_task(ask(socket, CONNECT)))
        await asyncio.wait(asking, timeout=0.1)
        answers.may_say.set()
        assert [answer for _, answer in await asyncio.gather(*asking)] == [b"new: hello\n"] * 2


async def test_failed_address_lookup_is_retried(tmp_path: Path) -> None:
    answers = SlowToSay()
    async with echoing(b"old: ") as old, echoing(b"new: ") as new, proxy(tmp_path, answers) as socket:
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", old))
        assert (await ask(socket, CONNECT))[1] == b"old: hello\n"
        answers.failures = 1
        add_route(tmp_path / "routes", Route("kyma-system", "skr-webhook", 443, "127.0.0.1", new))
        with pytest.raises(asyncio.IncompleteReadError):
            await ask(socket, CONNECT)
        assert (await ask(socket, CONNECT))[1] == b"new: hello\n"
