"""Our Watcher in front of upstream's listener, and a Watcher that does not sign in front of our endpoint."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from kyma_certs import Algorithm, CAs, KeyPair, LeafRequest, issue
from lifecycle_manager.events.endpoint import EndpointOptions
from skr_watcher.changes import ObjectChange
from skr_watcher.delivery import Delivery, Identity
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import Entry, Outbox
from skr_watcher.settings import Listener, SkrWatcherSettings
from tests.security.events.serving import ServedEndpoint, leaf, new_ca, now, write_files
from tests.waiting import eventually

RESYNC = ObjectChange("lifecycle-manager", "", "", "", "", "", "RESYNC", "", "", 0)
CHANGE = ObjectChange(
    "lifecycle-manager", "operator.kyma-project.io", "v1beta2", "Kyma", "kyma-system", "default", "UPDATE", "", "7", 1
)
CA = new_ca()


class UpstreamListener:
    """Takes events as upstream's listener does: by the path and the body, from verified TLS clients."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.fields: list[set[str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        version, _, last = scope["path"].strip("/").split("/")
        taken = scope["method"] == "POST" and version.startswith("v") and last == "event"
        taken = taken and "client_cert_der" in scope["extensions"]["tls"]
        self.bodies.append(msgspec.json.decode(body))
        self.fields.append({name.decode() for name, _ in scope["headers"]})
        await send({"type": "http.response.start", "status": 200 if taken else 400, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def delivering(
    endpoint: ServedEndpoint, pair: KeyPair, listener: Listener
) -> AsyncGenerator[tuple[Outbox, Metrics], None]:
    cert, key, ca = write_files(endpoint.folder / "watcher", pair, CA.certificate_pem)
    settings = SkrWatcherSettings(
        tls_cert=cert, tls_key=key, ca_cert=ca, kcp_address=endpoint.address, kcp_listener=listener
    )
    outbox = Outbox(100)
    metrics = Metrics()
    async with endpoint.served(), asyncio.TaskGroup() as tasks:
        working = tasks.create_task(Delivery(settings, outbox, Identity(settings), metrics).run())
        for change in (RESYNC, CHANGE):
            outbox.put(Entry(change, 1, time.time(), secrets.token_hex(16), ""))
        yield outbox, metrics
        working.cancel()


async def test_upstreams_listener_gets_unsigned_events_that_it_understands(tmp_path: Path) -> None:
    listener = UpstreamListener()
    endpoint = ServedEndpoint(tmp_path, CAs(CA), EndpointOptions(), instead=listener)
    async with delivering(endpoint, leaf(CA, "mine"), "upstream") as (outbox, metrics):
        await asyncio.wait_for(outbox.drained(), 60)
        assert metrics.registry.get_sample_value("watcher_kcp_requests_total") == 2
    assert [(body["watched"], body["watchedGvk"]) for body in listener.bodies] == [
        (
            {"Namespace": "kyma-system", "Name": "default"},
            {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
        )
    ] * 2
    assert not any(fields & {"signature", "signature-input", "client-cert"} for fields in listener.fields)


async def test_events_of_a_watcher_that_does_not_sign_are_refused_by_default(tmp_path: Path) -> None:
    endpoint = ServedEndpoint(tmp_path, CAs(CA), EndpointOptions(require_peer=True))
    async with delivering(endpoint, leaf(CA, "mine"), "upstream") as (_, metrics):

        async def refused() -> bool:
            return bool(metrics.registry.get_sample_value("watcher_failed_kcp_total", {"error_reason": "401"}))

        await eventually(refused)
    assert endpoint.taken == []


async def test_watcher_with_an_rsa_key_is_believed_by_its_connection_where_that_is_allowed(tmp_path: Path) -> None:
    request = LeafRequest(common_name="mine", dns_names=("a.example",), algorithm=Algorithm.RSA, rsa_key_size=2048)
    options = EndpointOptions(require_peer=True, accept_unsigned=True)
    endpoint = ServedEndpoint(tmp_path, CAs(CA), options)
    async with delivering(endpoint, issue(CA, request, now=now()), "klm") as (outbox, _):
        await asyncio.wait_for(outbox.drained(), 60)
    assert sorted(event.event.operation for event in endpoint.taken) == ["RESYNC", "UPDATE"]
    assert {event.runtime_id for event in endpoint.taken} == {"mine"}
