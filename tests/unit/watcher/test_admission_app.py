"""Admission answers whatever is sent to it, allows what it can read, and holds on to little."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skr_watcher import main, server
from skr_watcher.changes import ObjectChange
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Outbox
from skr_watcher.pressure import Lateness
from skr_watcher.recorder import Recorder
from skr_watcher.server import AdmissionApp
from tests.watcher_process import review

CHANGE = ObjectChange("lifecycle-manager", "g", "v1", "Thing", "ns", "one", "UPDATE", "u", "7", 1)
RESYNC_CHANGE = ObjectChange("lifecycle-manager", "", "", "", "", "", RESYNC, "", "", 0)


class Late(Lateness):
    is_late = True


class Asked:
    """An admission application, and what came of the requests to it."""

    def __init__(self, lateness: Lateness | None = None) -> None:
        self.outbox = Outbox(100)
        self.metrics = Metrics()
        self.recorder = Recorder(self.outbox, RESYNC_CHANGE, self.metrics)
        self.app = AdmissionApp(self.recorder, self.metrics, lateness or Lateness())

    async def post(self, chunks: Iterable[bytes], path: str = "/validate/lifecycle-manager") -> tuple[int, bytes]:
        given_chunks = list(chunks) or [b""]
        messages = [
            {"type": "http.request", "body": chunk, "more_body": number < len(given_chunks) - 1}
            for number, chunk in enumerate(given_chunks)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", "root_path": ""}
        await self.app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    def overflow(self) -> None:
        for number in range(101):
            self.recorder.record(replace(CHANGE, name=f"object-{number}"), 0.0)

    def sent(self) -> list[str]:
        return [entry.change.operation for entry in self.outbox.entries]

    def count(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(name) or 0.0


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


async def test_review_is_allowed_and_recorded() -> None:
    asked = Asked()
    status, answer = await asked.post([review("one")])
    assert (status, msgspec.json.decode(answer)["response"]) == (200, {"uid": "review-one", "allowed": True})
    assert asked.sent() == ["UPDATE"]
    assert asked.count("watcher_admission_request_total") == 1


async def test_review_under_overload_is_allowed_by_its_uid_and_followed_by_a_resync() -> None:
    asked = Asked(Late())
    status, answer = await asked.post([review("one")])
    assert (status, msgspec.json.decode(answer)["response"]) == (200, {"uid": "review-one", "allowed": True})
    assert asked.sent() == []
    assert asked.count("watcher_admission_request_shed_total") == 1
    asked.recorder.send_resync_now()
    assert asked.sent() == [RESYNC]


@pytest.mark.looptime
async def test_one_resync_covers_many_shed_changes() -> None:
    asked = Asked(Late())
    making_up = asyncio.ensure_future(asked.recorder.send_resyncs())
    for number in range(50):
        await asked.post([review(f"object-{number}")])
    async with asyncio.timeout(60):
        entry = await asked.outbox.take()
    assert entry.change.operation == RESYNC
    assert asked.count("watcher_resyncs_total") == 1
    making_up.cancel()


@pytest.mark.looptime
@pytest.mark.parametrize("cause", ["not inspected", "overflow"])
async def test_forged_reviews_cause_few_resyncs(cause: str) -> None:
    """Any Pod of the cluster may send them, as fast as it can; a RESYNC has the control plane read everything."""
    asked = Asked()
    making_up = asyncio.ensure_future(asked.recorder.send_resyncs())
    hour = asyncio.get_running_loop().time() + 3600
    while asyncio.get_running_loop().time() < hour:
        if cause == "overflow":
            asked.overflow()
        else:
            asked.recorder.missed()
        await asyncio.sleep(1)
    assert 110 <= asked.count("watcher_resyncs_total") <= 130
    await asyncio.sleep(60)
    before = asked.count("watcher_resyncs_total")
    asked.recorder.missed()
    await asyncio.sleep(3)
    assert asked.count("watcher_resyncs_total") == before + 1, "the first one after a pause is not late"
    making_up.cancel()


@pytest.mark.looptime
async def test_second_resync_follows_when_shed_changes_are_certainly_stored() -> None:
    """Another webhook may hold a write up for half a minute, and a RESYNC does not say what to wait for."""
    asked = Asked(Late())
    making_up = asyncio.ensure_future(asked.recorder.send_resyncs())
    await asked.post([review("one")])
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(120):
        asked.outbox.done(await asked.outbox.take())
        again = await asked.outbox.take()
    assert again.change.operation == RESYNC
    assert asyncio.get_running_loop().time() - started > 30
    making_up.cancel()


@pytest.mark.looptime
async def test_second_resync_follows_an_overflow_when_changes_are_certainly_stored() -> None:
    asked = Asked()
    making_up = asyncio.ensure_future(asked.recorder.send_resyncs())
    for number in range(101):
        await asked.post([review(f"object-{number}")])
    assert asked.sent() == []
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(120):
        asked.outbox.done(await asked.outbox.take())
        again = await asked.outbox.take()
    assert again.change.operation == RESYNC
    assert asyncio.get_running_loop().time() - started > 30
    making_up.cancel()


@pytest.mark.looptime
async def test_first_request_leads_to_two_resyncs_for_what_was_changed_before_it() -> None:
    """Until kube-proxy routes to a Pod that has just started, changes are allowed without it."""
    asked = Asked()
    making_up = asyncio.ensure_future(asked.recorder.send_resyncs())
    await asked.post([review("one")])
    assert asked.sent() == ["UPDATE"]
    await asyncio.sleep(60)
    assert asked.count("watcher_resyncs_total") == 2
    await asked.post([review("two")])
    await asyncio.sleep(60)
    assert asked.count("watcher_resyncs_total") == 2
    making_up.cancel()


@pytest.mark.looptime
async def test_only_changes_that_were_lost_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Every start of a Watcher has a first request: on a healthy system nothing warns."""
    asked = Asked()
    making_up = asyncio.ensure_future(asked.recorder.send_resyncs())
    await asked.post([review("one")])
    await asyncio.sleep(60)
    assert asked.count("watcher_resyncs_total") == 2
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    for lose in (asked.recorder.missed, asked.overflow):
        caplog.clear()
        lose()
        await asyncio.sleep(60)
        assert [each.levelname for each in caplog.records] == ["WARNING"]
    making_up.cancel()


@pytest.mark.parametrize("size", [100, 5000, 300_000])
async def test_body_above_the_memory_bound_is_allowed_by_its_head(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(server, "MAX_REVIEW_BYTES", 200_000)
    asked = Asked()
    status, answer = await asked.post(pieces(review("one", padding=400_000), size) or [b""])
    if size < 300_000:
        assert (status, msgspec.json.decode(answer)["response"]["uid"]) == (200, "review-one")
    assert asked.count("watcher_admission_request_shed_total") == 1


@pytest.mark.parametrize("place", ["name", "namespace", "kind", "uid of the object"])
async def test_change_larger_than_any_real_one_leads_to_a_resync(place: str) -> None:
    """Any Pod of the cluster may ask about objects that no API server has, and thousands of them are kept."""
    asked, long = Asked(), "n" * 1_000_000
    changed = msgspec.json.decode(review("one"))
    match place:
        case "kind":
            changed["request"]["kind"]["kind"] = long
        case "uid of the object":
            changed["request"]["oldObject"]["metadata"]["uid"] = long
        case _:
            changed["request"][place] = long
    status, answer = await asked.post([msgspec.json.encode(changed)])
    assert (status, msgspec.json.decode(answer)["response"]["allowed"]) == (200, True)
    assert asked.sent() == []
    asked.recorder.send_resync_now()
    assert asked.sent() == [RESYNC]


async def test_memory_of_a_body_is_released() -> None:
    asked = Asked()
    for number in range(20):
        status, _ = await asked.post(pieces(review(f"object-{number}", padding=500_000), 65_536))
        assert status == 200
    assert asked.count("watcher_admission_request_shed_total") == 0
    assert len(asked.sent()) == 20


async def test_aborted_request_leads_to_a_resync() -> None:
    asked = Asked()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        raise AssertionError

    await asked.app({"type": "http", "method": "POST", "path": "/validate/m", "headers": []}, receive, send)
    asked.recorder.send_resync_now()
    assert asked.sent() == [RESYNC]


@pytest.mark.parametrize("operation", [b"CREATE", b"UPDATE"])
async def test_object_nested_too_deep_is_allowed_and_leads_to_a_resync(operation: bytes) -> None:
    asked = Asked()
    deep = b'{"metadata":{"name":"one"},"spec":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"
    request = b'"uid":"u-1","name":"one","operation":"' + operation + b'","object":' + deep + b',"oldObject":null'
    body = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{' + request + b"}}"
    status, answer = await asked.post([body])
    assert status == 200
    assert msgspec.json.decode(answer)["response"] == {"uid": "u-1", "allowed": True}
    assert asked.count("watcher_admission_request_shed_total") == 1  # a RESYNC follows


def test_connections_of_an_api_server_are_closed_by_itself() -> None:
    """A request that crosses the end of its connection is lost: Go repeats no POST, and no webhook is called twice."""
    idle_seconds_of_go = 90
    assert idle_seconds_of_go < main.IDLE_SECONDS


@pytest.mark.parametrize("path", ["/validate/", "/validate/a/b", "/", "/elsewhere"])
async def test_other_paths_are_not_found(path: str) -> None:
    assert (await Asked().post([review("one")], path))[0] == 404


@pytest.mark.parametrize("manager", ["a\x00b", "a\nb", "..", "a?b=c", "a#b", "a%2fb", "\xe9", "a" * 254])
async def test_manager_with_a_special_meaning_in_a_url_is_not_found(manager: str) -> None:
    """Any Pod of the cluster may ask; nobody may have an event sent elsewhere, or end the Watcher with one."""
    asked = Asked()
    assert (await asked.post([review("one")], f"/validate/{manager}"))[0] == 404
    assert asked.sent() == []


def mutated() -> st.SearchStrategy[bytes]:
    """Reviews with bytes cut out of them, put in and changed."""
    body = review("one")
    place = st.integers(0, len(body))
    return st.builds(
        lambda start, length, junk: body[:start] + junk + body[start + length :], place, st.integers(0, 40), st.binary()
    )


@given(body=st.binary(max_size=300) | mutated(), size=st.integers(1, 500), late=st.booleans())
def test_any_body_gets_a_response(body: bytes, size: int, *, late: bool) -> None:
    asked = Asked(Late() if late else None)
    with closing(asyncio.new_event_loop()) as loop:  # asyncio.run() would leave the plugin's loop unclosed
        status, answer = loop.run_until_complete(asked.post(pieces(body, size)))
    assert status in {200, 400, 413}
    if status == 200:
        assert msgspec.json.decode(answer)["response"]["allowed"] is True
