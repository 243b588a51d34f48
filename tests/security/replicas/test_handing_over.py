"""Events that one replica hands over to another: taken from replicas only, for Kymas of the receiver only."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from kube_runtime import SYSTEM_CLOCK
from kube_runtime.leases.handover import NotHandedOver
from kube_runtime.leases.membership import Member
from kyma_certs import CAs, LeafRequest, Usage, create_ca, issue
from kyma_local.ports import free_port
from lifecycle_manager.contract.dns_names import REPLICA_HOST
from lifecycle_manager.events.endpoint import VerifiedEvent
from lifecycle_manager.process.serving import serve
from lifecycle_manager.process.serving_certificate import ServingCertificate
from lifecycle_manager.replicas import Deliveries, create_app, is_replica, sending
from lifecycle_manager.replicas.message import MAX_BODY_BYTES, PATH, Handed
from lifecycle_manager_api import WatchEvent
from tests.security.events.serving import LONG_TIMEOUTS
from tests.waiting import eventually

TRUSTED = CAs(create_ca("ca", lifetime=timedelta(days=1), now=SYSTEM_CLOCK.now()))
MINE = "mine"


@dataclass
class Receiver:
    """A replica that others hand events to, and that has the Kyma `mine`."""

    folder: Path
    port: int = field(default_factory=free_port)
    ready: bool = True
    admits: Callable[[bytes], bool] = lambda _: True
    room: int | None = None
    taken: list[tuple[str, VerifiedEvent]] = field(default_factory=list)
    requests: int = 0

    @property
    def member(self) -> Member:
        return Member("receiver", f"127.0.0.1:{self.port}")

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None, None]:
        certificate = ServingCertificate(self.folder / "receiver", (REPLICA_HOST,), SYSTEM_CLOCK, frozenset(Usage))
        await certificate.write(TRUSTED)
        publisher: Any = self
        membership: Any = self
        app = create_app(publisher, membership, self._is_ready)
        tls = certificate.server_context()
        serving = asyncio.create_task(
            serve(
                app,
                "127.0.0.1",
                self.port,
                tls,
                bounds=LONG_TIMEOUTS,
                max_connections_per_peer=self.room,
                admits=self.admits,
            )
        )
        try:
            await eventually(self._listens)
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    # In place of the publisher, and of the membership.
    identity = "receiver"

    def _is_ready(self) -> bool:
        self.requests += 1
        return self.ready

    def take(self, kyma_name: str, verified: VerifiedEvent) -> None:
        self.taken.append((kyma_name, verified))

    def owner_of(self, kyma_name: str) -> Member:
        return self.member if kyma_name == MINE else Member("another")

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


def event(number: int, operation: str = "UPDATE") -> VerifiedEvent:
    received_at = datetime(2026, 1, 1, tzinfo=UTC)
    return VerifiedEvent("runtime", "lifecycle-manager", WatchEvent(id=str(number), operation=operation), received_at)


def client_with(folder: Path, *, dns_names: tuple[str, ...], name: str = "runtime") -> httpx.AsyncClient:
    """Return a client with a certificate of the CA of KCP, as a Watcher has one."""
    pair = issue(TRUSTED.signing, LeafRequest(common_name=name, dns_names=dns_names), now=SYSTEM_CLOCK.now())
    (folder / "client.pem").write_bytes(pair.certificate_pem + pair.key_pem)
    context = ssl.create_default_context(cadata=TRUSTED.trusted.decode())
    context.load_cert_chain(folder / "client.pem")
    return httpx.AsyncClient(verify=context, trust_env=False, timeout=60)


@pytest.fixture
async def receiver(tmp_path: Path) -> AsyncIterator[Receiver]:
    receiver = Receiver(tmp_path)
    async with receiver.served():
        yield receiver


@pytest.fixture
async def certificate(tmp_path: Path) -> ServingCertificate:
    certificate = ServingCertificate(tmp_path / "sender", (REPLICA_HOST,), SYSTEM_CLOCK, frozenset(Usage))
    await certificate.write(TRUSTED)
    return certificate


@pytest.fixture
async def deliveries(certificate: ServingCertificate, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Deliveries]:
    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 60.0)  # nothing here is slow, but a machine may be
    deliveries = Deliveries(certificate.client_context)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(deliveries.run())
        await asyncio.sleep(0)
        yield deliveries
        running.cancel()


async def post(client: httpx.AsyncClient, receiver: Receiver, body: bytes) -> httpx.Response:
    url = f"https://{receiver.member.address}{PATH}"
    return await client.post(url, content=body, extensions={"sni_hostname": REPLICA_HOST})


async def test_events_arrive_as_they_were_verified_and_in_order(receiver: Receiver, deliveries: Deliveries) -> None:
    events = [event(number) for number in range(300)]
    async with asyncio.TaskGroup() as tasks:
        for each in events:
            tasks.create_task(deliveries.deliver(receiver.member, MINE, each))
    assert receiver.taken == [(MINE, each) for each in events]


async def test_no_event_is_refused_because_the_certificate_was_renewed(
    receiver: Receiver, deliveries: Deliveries, certificate: ServingCertificate
) -> None:
    for number in range(5):
        await deliveries.deliver(receiver.member, MINE, event(number))
        await certificate.write(TRUSTED)
    assert len(receiver.taken) == 5


async def test_event_for_a_kyma_of_another_is_refused_and_those_beside_it_are_taken(
    receiver: Receiver, deliveries: Deliveries
) -> None:
    given = [deliveries.deliver(receiver.member, kyma, event(1)) for kyma in (MINE, "theirs", MINE)]
    first, second, third = await asyncio.gather(*given, return_exceptions=True)
    assert (first, third) == (None, None)
    assert isinstance(second, NotHandedOver)
    assert [kyma for kyma, _ in receiver.taken] == [MINE, MINE]


async def test_stopping_or_ended_replica_takes_nothing_and_a_later_event_gets_through(
    receiver: Receiver, deliveries: Deliveries
) -> None:
    receiver.ready = False
    with pytest.raises(NotHandedOver):
        await deliveries.deliver(receiver.member, MINE, event(1))
    with pytest.raises(NotHandedOver):
        await deliveries.deliver(Member("gone", f"127.0.0.1:{free_port()}"), MINE, event(1))
    receiver.ready = True
    await deliveries.deliver(receiver.member, MINE, event(2))
    assert receiver.taken == [(MINE, event(2))]


async def test_replica_whose_certificate_is_refused_goes_on_and_a_later_event_gets_through(
    receiver: Receiver, deliveries: Deliveries, certificate: ServingCertificate
) -> None:
    """This happens where one replica is a step of a rotation ahead; TLS 1.3 reports it only after the handshake."""
    ahead = create_ca("another", lifetime=timedelta(days=1), now=SYSTEM_CLOCK.now())
    await certificate.write(CAs(ahead, former_pem=TRUSTED.signing.certificate_pem))
    with pytest.raises(NotHandedOver):
        async with asyncio.timeout(60):
            await deliveries.deliver(receiver.member, MINE, event(1))
    await certificate.write(TRUSTED)
    await deliveries.deliver(receiver.member, MINE, event(2))
    assert receiver.taken == [(MINE, event(2))]


async def test_replica_with_an_unusable_address_ends_no_other(
    receiver: Receiver, deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("fd00::1:8443", "host:port", ""):
        with pytest.raises(NotHandedOver):
            async with asyncio.timeout(60):
                await deliveries.deliver(Member(f"at {address}", address), MINE, event(1))
    await deliveries.deliver(receiver.member, MINE, event(2))
    assert receiver.taken == [(MINE, event(2))]


async def test_failure_that_nobody_expects_ends_the_link_and_not_the_replica(
    receiver: Receiver, deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("a mistake in the program")

    async def is_taken() -> bool:
        try:
            await deliveries.deliver(receiver.member, MINE, event(2))
        except NotHandedOver:
            return False  # the link that failed is being closed
        return True

    with monkeypatch.context() as patch:
        patch.setattr("lifecycle_manager.replicas.sending._Link._send", fail)
        with pytest.raises(NotHandedOver):
            async with asyncio.timeout(60):
                await deliveries.deliver(receiver.member, MINE, event(1))
    await eventually(is_taken)
    assert receiver.taken == [(MINE, event(2))]


async def test_certificate_of_a_watcher_is_refused(receiver: Receiver, tmp_path: Path) -> None:
    body = msgspec.json.encode([Handed(MINE, event(1))])
    for dns_names in ((), ("skr-webhook.kyma-system.svc",), ("evil.example.com",)):
        async with client_with(tmp_path, dns_names=dns_names, name=REPLICA_HOST) as client:
            assert (await post(client, receiver, body)).status_code == 403
    assert receiver.taken == []


async def test_idle_connections_with_a_certificate_of_a_watcher_are_closed_at_once(
    tmp_path: Path, deliveries: Deliveries
) -> None:
    receiver = Receiver(tmp_path, admits=is_replica, room=2)
    async with receiver.served(), client_with(tmp_path, dns_names=("a.example",)) as client:
        with pytest.raises(httpx.TransportError):
            await post(client, receiver, msgspec.json.encode([Handed(MINE, event(1))]))
        await deliveries.deliver(receiver.member, MINE, event(2))
    assert receiver.taken == [(MINE, event(2))]


async def test_nobody_gets_in_without_a_certificate(receiver: Receiver) -> None:
    context = ssl.create_default_context(cadata=TRUSTED.trusted.decode())
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=60) as client:
        with pytest.raises(httpx.TransportError):
            await post(client, receiver, msgspec.json.encode([Handed(MINE, event(1))]))
    assert receiver.taken == []


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[{"kyma": 1}]', b"\xff", b"[" * 100_000])
async def test_malformed_message_is_refused_whole(receiver: Receiver, tmp_path: Path, body: bytes) -> None:
    async with client_with(tmp_path, dns_names=(REPLICA_HOST,)) as client:
        assert (await post(client, receiver, body)).status_code == 400
        assert (await post(client, receiver, b"[" + b" " * MAX_BODY_BYTES)).status_code == 413
    assert receiver.taken == []
