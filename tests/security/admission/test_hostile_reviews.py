"""Whoever reaches the admission port takes bounded memory, and none without the client certificate that is required."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest

from kube_runtime import SYSTEM_CLOCK
from kube_runtime.admission.review import MAX_BYTES_PER_ADDRESS, MAX_REVIEW_BYTES, ReviewedObject
from kube_runtime.byte_budget import ByteBudget, TooManyBytes
from kyma_certs import CAs, KeyPair, LeafRequest, create_ca, issue
from kyma_local.ports import free_port
from lifecycle_manager.admission import create_app, validator_for
from lifecycle_manager.process.serving import serve
from lifecycle_manager.process.serving_certificate import ServingCertificate
from lifecycle_manager_api import SyncResource, as_document
from tests import builders
from tests.waiting import eventually

URL = "https://kcp/validate/syncresources"
NOW = datetime.now(UTC)


def review(text: str = "") -> bytes:
    item = as_document(builders.sync_resource())
    item["spec"]["resource"] = text
    return msgspec.json.encode({"request": {"uid": "u1", "operation": "CREATE", "object": item}})


async def test_bodies_that_do_not_end_take_no_more_than_a_share_of_the_memory() -> None:
    app = create_app({"syncresources": validator_for(SyncResource)})
    stop = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(7):
            yield bytes(1024 * 1024)
        await stop.wait()

    def client(address: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(address, 1)))

    async with client("10.0.0.66") as attacker, client("10.0.0.1") as api_server, asyncio.TaskGroup() as tasks:
        attacks = [tasks.create_task(attacker.post(URL, content=endless())) for _ in range(40)]
        await eventually(lambda: sum(each.done() for each in attacks) == 38)
        assert {each.result().status_code for each in attacks if each.done()} == {503}
        assert (await api_server.post(URL, content=review())).status_code == 200
        stop.set()
    assert 7 * 2 <= MAX_BYTES_PER_ADDRESS / 1024**2 < 7 * 3
    async with client("10.0.0.66") as again:
        assert (await again.post(URL, content=b" " * MAX_REVIEW_BYTES)).status_code == 400


def test_budget_is_given_back_whatever_happens() -> None:
    budget = ByteBudget(total=10, per_address=6)
    with budget.share("a") as take:
        take(6)
        with pytest.raises(TooManyBytes), budget.share("a") as more:
            more(1)
        with budget.share("b") as other:
            other(4)
            with pytest.raises(TooManyBytes):
                other(1)
        assert budget.taken == {"a": 6}
    assert not budget.taken


async def test_large_object_is_checked_outside_the_event_loop() -> None:
    threads = []

    def check(_: SyncResource) -> None:
        threads.append(threading.get_ident())

    validate = validator_for(SyncResource, check, in_thread=True)
    for text in ("a", "a" * 20_000):
        item = as_document(builders.sync_resource())
        item["spec"]["resource"] = text
        request = ReviewedObject(uid="u1", object=msgspec.Raw(msgspec.json.encode(item)))
        assert (await validate(request)).error is None
    small, large = threads
    assert small == threading.get_ident() != large


@asynccontextmanager
async def served(folder: Path, client_ca: Path | None) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    ca = create_ca("kcp", lifetime=timedelta(days=1), now=NOW)
    certificate = ServingCertificate(folder / "admission", ("localhost",), SYSTEM_CLOCK)
    await certificate.write(CAs(ca))
    port = free_port()
    tls = certificate.server_context(ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED, client_ca)
    app = create_app({"syncresources": validator_for(SyncResource)})
    serving = asyncio.create_task(serve(app, "127.0.0.1", port, tls))
    trust = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    try:
        yield port, trust
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_with_a_client_ca_nobody_else_is_answered(tmp_path: Path) -> None:
    api_server_ca = create_ca("api-server", lifetime=timedelta(days=1), now=NOW)
    stranger_ca = create_ca("stranger", lifetime=timedelta(days=1), now=NOW)
    path = tmp_path / "client-ca.crt"
    path.write_bytes(api_server_ca.certificate_pem)
    async with served(tmp_path, path) as (port, trust):
        url = f"https://localhost:{port}/validate/syncresources"
        for ca in (None, stranger_ca):
            with pytest.raises(httpx.HTTPError):
                async with httpx.AsyncClient(verify=_with(trust, ca, tmp_path)) as client:
                    await client.post(url, content=review())
        async with httpx.AsyncClient(verify=_with(trust, api_server_ca, tmp_path)) as client:
            assert (await client.post(url, content=review())).json()["response"]["allowed"]


def _with(trust: ssl.SSLContext, ca: KeyPair | None, folder: Path) -> ssl.SSLContext:
    if ca is not None:
        pair = issue(ca, LeafRequest(common_name="kube-apiserver", dns_names=("kube-apiserver",)), now=NOW)
        file = folder / "client.pem"
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        trust.load_cert_chain(file)
    return trust
