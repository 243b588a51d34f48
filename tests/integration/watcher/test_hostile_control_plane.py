"""A control plane, or a gateway before it, that answers as nobody should: no change is lost and no room is taken."""

import asyncio
import gzip
import secrets
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kyma_certs import CAs
from kyma_diagnostics.spans import ChangeTracer
from lifecycle_manager.events.endpoint import EndpointOptions
from skr_watcher import client
from skr_watcher.changes import ObjectChange
from skr_watcher.delivery import FIRST_PAUSE_SECONDS, IN_FLIGHT, Delivery, Identity
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import Entry, Outbox
from skr_watcher.settings import SkrWatcherSettings
from tests.security.events.serving import ServedEndpoint, leaf, new_ca, write_files
from tests.unit.diagnostics.recorded import Exported, tracer_with
from tests.waiting import eventually

CA = new_ca()
CHANGE = ObjectChange("lifecycle-manager", "g", "v1", "Thing", "ns", "one", "UPDATE", "u", "7", 1)
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"
TIMEOUT = 60.0
BOMB_BYTES = 64 * 1024 * 1024
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = Callable[[Receive, Send], Awaitable[None]]


def says(status: int, *fields: tuple[str, str], body: bytes = b"") -> Answer:
    async def answer(_: Receive, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in (*fields, ("content-length", str(len(body))))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


def without_end(piece: bytes, *, every: float, status: int) -> Answer:
    """Answer with a body that goes on for longer than anybody waits."""

    async def answer(receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(every)

    return answer


class Hostile:
    """Gives the first events some answers, and takes every other."""

    def __init__(self, *first: Answer) -> None:
        self._answers = [*first]
        self.fields: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        self.fields.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await (self._answers.pop() if self._answers else says(200))(receive, send)


@asynccontextmanager
async def delivering(
    folder: Path, hostile: Any, *, tracer: ChangeTracer | None = None
) -> AsyncGenerator[tuple[Outbox, Metrics], None]:
    endpoint = ServedEndpoint(folder, CAs(CA), EndpointOptions(), instead=hostile)
    cert, key, ca = write_files(folder / "watcher", leaf(CA, "mine"), CA.certificate_pem)
    settings = SkrWatcherSettings(tls_cert=cert, tls_key=key, ca_cert=ca, kcp_address=endpoint.address)
    outbox, metrics = Outbox(100), Metrics()
    async with endpoint.served(), asyncio.TaskGroup() as tasks:
        working = tasks.create_task(Delivery(settings, outbox, Identity(settings), metrics, tracer).run())
        outbox.put(Entry(CHANGE, 1, time.time(), secrets.token_hex(16), TRACE))
        yield outbox, metrics
        working.cancel()


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 500, 503])
async def test_refusal_of_a_gateway_is_retried(tmp_path: Path, status: int) -> None:
    """While Lifecycle Manager is away, a gateway says what it likes; only its own word is for good."""
    hostile = Hostile(says(status, ("content-type", "text/html")))
    async with delivering(tmp_path, hostile) as (outbox, _):
        await asyncio.wait_for(outbox.drained(), TIMEOUT)
    assert len(hostile.fields) == 2


async def test_refused_attempt_is_a_failed_span_of_the_trace_of_its_change(tmp_path: Path) -> None:
    exported = Exported()
    async with delivering(tmp_path, Hostile(says(503)), tracer=tracer_with(exported, ratio=1.0)) as (outbox, _):
        await asyncio.wait_for(outbox.drained(), TIMEOUT)
        await eventually(lambda: len(exported.spans) == 2)
    assert [each.name for each in exported.spans] == ["delivery", "delivery"]
    assert [each.status.description for each in exported.spans] == ["503", None]
    assert {f"{each.parent.span_id:016x}" for each in exported.spans if each.parent} == {TRACE[36:52]}


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (400, 1), (409, 2)])
async def test_refusal_of_the_control_plane_is_final_except_a_replay(
    tmp_path: Path, status: int, attempts: int
) -> None:
    """A gateway that sends an event twice has the second one refused as a replay, whatever became of the first."""
    hostile = Hostile(says(status, ("content-type", "application/problem+json")))
    async with delivering(tmp_path, hostile) as (outbox, _):
        await asyncio.wait_for(outbox.drained(), TIMEOUT)
    assert len(hostile.fields) == attempts


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    ("piece", "every"), [pytest.param(b"x" * 16_384, 0.001, id="much"), pytest.param(b"x", 0.02, id="byte by byte")]
)
async def test_endless_response_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, piece: bytes, every: float
) -> None:
    monkeypatch.setattr(client, "RESPONSE_SECONDS", 0.5)
    hostile = Hostile(without_end(piece, every=every, status=status))
    async with delivering(tmp_path, hostile) as (outbox, _):
        await asyncio.wait_for(outbox.drained(), TIMEOUT)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "GZIP"])
@pytest.mark.parametrize("status", [200, 500])
async def test_compressed_response_is_refused_and_never_decoded(tmp_path: Path, status: int, encoding: str) -> None:
    """A few hundred bytes of stacked gzip become 100 MB."""
    bomb = gzip.compress(gzip.compress(bytes(BOMB_BYTES), mtime=0), mtime=0)
    hostile = Hostile(says(status, ("content-encoding", encoding), body=bomb))
    tracemalloc.start()
    try:
        async with delivering(tmp_path, hostile) as (outbox, metrics):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            await asyncio.wait_for(outbox.drained(), TIMEOUT)
            assert tracemalloc.get_traced_memory()[1] - before < BOMB_BYTES / 20
    finally:
        tracemalloc.stop()
    assert len(hostile.fields) == 2
    assert all(fields["accept-encoding"] == "identity" for fields in hostile.fields)
    refused = metrics.registry.get_sample_value("watcher_failed_kcp_total", {"error_reason": "ResponseRefused"})
    assert refused == 1


async def test_attempts_that_fail_together_are_one_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A restart of Lifecycle Manager that interrupts eight events does not keep users waiting for the longest pause."""
    barrier = asyncio.Barrier(IN_FLIGHT)

    async def refuse_all(receive: Receive, send: Send) -> None:
        await barrier.wait()
        await says(503)(receive, send)

    hostile = Hostile(*[refuse_all] * IN_FLIGHT)
    async with delivering(tmp_path, hostile) as (outbox, _):
        for number in range(1, IN_FLIGHT):
            outbox.put(Entry(replace(CHANGE, name=str(number)), 1, time.time(), secrets.token_hex(16), TRACE))
        await asyncio.wait_for(outbox.drained(), TIMEOUT)
    pauses = [vars(each)["retry_after_seconds"] for each in caplog.records if each.msg == "event not delivered"]
    assert len(pauses) == IN_FLIGHT
    assert max(pauses) <= 1.5 * FIRST_PAUSE_SECONDS


async def test_cookies_are_not_kept(tmp_path: Path) -> None:
    hostile = Hostile(says(500, ("set-cookie", "a=b; Path=/")))
    async with delivering(tmp_path, hostile) as (outbox, _):
        await asyncio.wait_for(outbox.drained(), TIMEOUT)
    assert "cookie" not in hostile.fields[1]
