"""Who a sender is where TLS ends in the Lifecycle Manager itself, on a real socket."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_guard import Bounds
from kube_runtime import SYSTEM_CLOCK, Clock
from kyma_certs import CAs, KeyPair
from lifecycle_manager.events.endpoint import EndpointOptions
from lifecycle_manager.events.problems import Reason
from lifecycle_manager.process.serving import BOUNDS
from tests.clocks import ManualClock
from tests.security.events.serving import LONG_TIMEOUTS, ServedEndpoint, leaf, new_ca
from tests.security.events.test_attacks import BODY, PATH, Message, xfcc
from tests.waiting import eventually

CA = new_ca()
MINE, THEIRS = leaf(CA, "mine"), leaf(CA, "theirs")
HERE, ELSEWHERE = (ip_network("127.0.0.0/8"),), (ip_network("10.0.0.0/8"),)
PLAIN = {"Content-Type": "application/json"}


@asynccontextmanager
async def endpoint(
    folder: Path,
    *,
    mutual: bool = True,
    room: int | None = None,
    bounds: Bounds = LONG_TIMEOUTS,
    clock: Clock = SYSTEM_CLOCK,
    **options: Any,
) -> AsyncGenerator[ServedEndpoint, None]:
    served = ServedEndpoint(folder, CAs(CA), EndpointOptions(require_peer=True, **options))
    served.max_connections_per_peer, served.bounds = room, bounds
    served.clock = clock
    async with served.served(ssl.CERT_REQUIRED if mutual else ssl.CERT_OPTIONAL):
        yield served


async def send(
    served: ServedEndpoint, shown: KeyPair | None, headers: Any = None, signed_by: KeyPair | None = None
) -> httpx.Response:
    """Send an event with a certificate in TLS, and header fields, or signed with a certificate."""
    if signed_by is not None:
        url = f"https://{served.address}{PATH}"
        headers = dict(Message(pair=signed_by, shown=signed_by, signed_url=url).fields()) | (headers or {})
    async with served.client(shown) as client:
        return await client.post(PATH, content=BODY, headers=headers or PLAIN)


async def test_event_is_accepted_from_the_peer_that_signed_it(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        assert (await send(served, MINE, signed_by=MINE)).status_code == 200
        assert [event.runtime_id for event in served.taken] == ["mine"]


async def test_event_signed_by_another_runtime_is_refused(tmp_path: Path) -> None:
    """Whoever gets hold of a signed message, or of a key without its connection, can't send it as its own."""
    async with endpoint(tmp_path) as served:
        assert (await send(served, THEIRS, signed_by=MINE)).status_code == 401
        assert (served.refused, served.taken) == ([Reason.TLS_PEER], [])


@pytest.mark.parametrize("shown", [None, leaf(new_ca(), "mine")], ids=["no certificate", "a stranger's"])
async def test_peer_without_a_valid_certificate_is_refused(tmp_path: Path, shown: KeyPair | None) -> None:
    async with endpoint(tmp_path) as served:
        with pytest.raises(httpx.TransportError):
            await send(served, shown, signed_by=MINE)
        assert served.taken == []


async def test_peer_that_is_not_a_proxy_needs_a_certificate_even_if_proxies_do_not(tmp_path: Path) -> None:
    async with endpoint(tmp_path, mutual=False, trusted_proxies=ELSEWHERE, accept_unsigned=True) as served:
        assert (await send(served, None, signed_by=MINE)).status_code == 401
        assert (await send(served, None)).status_code == 401
        assert (await send(served, None, PLAIN | {"X-Forwarded-Client-Cert": xfcc(MINE)})).status_code == 401
        assert served.refused == [Reason.NO_TLS_PEER] * 3


async def test_address_in_a_header_is_ignored(tmp_path: Path) -> None:
    """Servers tend to believe X-Forwarded-For from loopback."""
    claims = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1", "X-Real-IP": "10.0.0.1"}
    async with endpoint(tmp_path, mutual=False, trusted_proxies=ELSEWHERE, accept_unsigned=True) as served:
        answer = await send(served, THEIRS, PLAIN | claims | {"X-Forwarded-Client-Cert": xfcc(MINE)})
        assert (answer.status_code, served.refused) == (401, [Reason.UNTRUSTED_PROXY])


async def test_unsigned_event_is_accepted_for_its_peer_if_allowed(tmp_path: Path) -> None:
    async with endpoint(tmp_path, accept_unsigned=True) as served:
        assert (await send(served, MINE)).status_code == 200
        assert [event.runtime_id for event in served.taken] == ["mine"]


async def test_unsigned_event_is_refused_by_default(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        assert (await send(served, MINE)).status_code == 401
        assert served.refused == [Reason.UNSIGNED]


@pytest.mark.parametrize("field", ["Signature", "Signature-Input", "Client-Cert"])
async def test_optional_signature_is_verified(tmp_path: Path, field: str) -> None:
    async with endpoint(tmp_path, accept_unsigned=True) as served:
        assert (await send(served, MINE, PLAIN | {field: "kyma=:AAAA:"})).status_code == 401
        assert served.taken == []


async def test_proxy_names_the_sender_and_passes_signatures_on(tmp_path: Path) -> None:
    async with endpoint(tmp_path, mutual=False, trusted_proxies=HERE, accept_unsigned=True) as served:
        forwarded = PLAIN | {"X-Forwarded-Client-Cert": xfcc(MINE)}
        assert (await send(served, None, forwarded)).status_code == 200
        assert (await send(served, THEIRS, forwarded)).status_code == 200, "a proxy may have a certificate itself"
        assert (await send(served, None, signed_by=MINE)).status_code == 200
        assert [event.runtime_id for event in served.taken] == ["mine"] * 3


async def test_watcher_at_the_address_of_a_proxy_names_no_other_runtime(tmp_path: Path) -> None:
    async with endpoint(tmp_path, mutual=False, trusted_proxies=HERE, accept_unsigned=True) as served:
        served.runtimes = frozenset({"theirs"})
        forwarded = PLAIN | {"X-Forwarded-Client-Cert": xfcc(MINE)}
        assert (await send(served, THEIRS, forwarded)).status_code == 401
        assert (await send(served, THEIRS)).status_code == 200
        assert (await send(served, None, forwarded)).status_code == 200
        assert [event.runtime_id for event in served.taken] == ["theirs", "mine"]


async def test_refused_work_is_charged_to_its_peer_alone(tmp_path: Path) -> None:
    async with endpoint(tmp_path, refusals_per_second=0.001, refusal_burst=3) as served:
        broken = [await send(served, THEIRS, {"Signature": "kyma=:AAAA:"}, signed_by=THEIRS) for _ in range(5)]
        assert [each.status_code for each in broken] == [401, 401, 401, 429, 429]
        assert served.requests == 5
        assert (await send(served, THEIRS, signed_by=THEIRS)).status_code == 429
        assert (await send(served, MINE, signed_by=MINE)).status_code == 200


async def test_peer_that_was_refused_waits_no_longer_after_the_wall_clock_was_set_back(tmp_path: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with endpoint(tmp_path, refusals_per_second=1.0, refusal_burst=1, clock=clock) as served:

        async def status_of_a_broken_event() -> int:
            return (await send(served, THEIRS, {"Signature": "kyma=:AAAA:"}, signed_by=THEIRS)).status_code

        assert [await status_of_a_broken_event() for _ in range(2)] == [401, 429]
        clock.jump(-3600)
        clock.advance(1)
        assert await status_of_a_broken_event() == 401


async def test_unfinished_handshake_is_closed_and_delays_no_other(tmp_path: Path) -> None:
    async with endpoint(tmp_path, bounds=BOUNDS) as served:
        slow = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(20)]
        for _, writer in slow[:10]:
            writer.write(b"\x16\x03\x01\x00\xc8\x01\x00")
        assert (await send(served, MINE, signed_by=MINE)).status_code == 200
        async with asyncio.timeout(BOUNDS.tls_seconds + 60):
            await asyncio.gather(*(reader.read() for reader, _ in slow), return_exceptions=True)
        for _, writer in slow:
            writer.transport.abort()
        assert (await send(served, THEIRS, signed_by=THEIRS)).status_code == 200


async def test_connections_of_one_cluster_do_not_keep_out_others(tmp_path: Path) -> None:
    """There is room for so many connections of the whole fleet, and each is kept for as long as it is used."""
    room = 5
    async with endpoint(tmp_path, room=room) as served:
        served.delay_seconds = LONG_TIMEOUTS.request_seconds
        async with asyncio.TaskGroup() as tasks:
            busy = [tasks.create_task(send(served, THEIRS)) for _ in range(room)]
            await eventually(lambda: served.requests == room)
            with pytest.raises(httpx.TransportError):
                await send(served, THEIRS)
            served.delay_seconds = 0.0
            assert (await send(served, MINE, signed_by=MINE)).status_code == 200
            for each in busy:
                each.cancel()

        async def has_room() -> bool:
            with suppress(httpx.TransportError):
                return (await send(served, THEIRS)).status_code == 401
            return False

        await eventually(has_room, what="a connection that was closed gives its place back")


async def test_cluster_with_too_many_connections_loses_the_one_that_is_idle_longest(tmp_path: Path) -> None:
    """And never one with a request under way, however old."""
    async with endpoint(tmp_path, room=3) as served, AsyncExitStack() as held:
        served.delay_seconds = 1.0
        async with asyncio.TaskGroup() as tasks:
            oldest = tasks.create_task(send(served, THEIRS))
            await eventually(lambda: served.requests == 1)
            served.delay_seconds = 0.0
            first, second = [await held.enter_async_context(leaking(served, THEIRS)) for _ in range(2)]
            await first.post(unsigned(served))
            await second.post(unsigned(served))
            await first.post(unsigned(served))
            third = await held.enter_async_context(leaking(served, THEIRS))
            assert await third.post(unsigned(served)) == 401
            assert await first.post(unsigned(served)) == 401
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await second.post(unsigned(served))
        assert oldest.result().status_code == 401


async def test_client_with_a_connection_for_each_event_that_closes_none_loses_no_event(tmp_path: Path) -> None:
    """The Go Watcher does, with an HTTP transport for each event, whose connections stay open."""
    async with endpoint(tmp_path, room=10, accept_unsigned=True, events_per_second=1e6, burst=10**6) as served:
        async with AsyncExitStack() as held:
            answers = []
            for _ in range(60):
                connection = await held.enter_async_context(leaking(served, MINE))
                answers.append(await connection.post(unsigned(served)))
                await asyncio.sleep(1 / 40)
        assert answers == [200] * 60
        assert len(served.taken) == 60


@dataclass(frozen=True)
class Leaking:
    """A connection that its client never closes, and whose answers it reads."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def post(self, request: bytes) -> int:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self.reader.readexactly(length)
        return int(head[9:12])


@asynccontextmanager
async def leaking(served: ServedEndpoint, pair: KeyPair) -> AsyncGenerator[Leaking, None]:
    context = served.client_context(pair)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=context)
    yield Leaking(reader, writer)
    writer.transport.abort()


def unsigned(served: ServedEndpoint) -> bytes:
    head = f"POST {PATH} HTTP/1.1\r\nhost: {served.address}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY
