"""The Watcher under load, without a control plane, told to stop, and beside another: nobody waits, nothing is lost."""

import asyncio
import ssl
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from http_guard import Bounds
from kyma_certs import KeyPair, LeafRequest, create_ca, issue
from kyma_local.processes import tail
from tests.integration.watcher.conftest import StartWatcher
from tests.waiting import eventually
from tests.watcher_process import CA, Connection, ControlPlane, Watcher, review, serving

MAX_MEGABYTES = 100
BOUNDS = Bounds(connections=1)  # of which the Watcher sets its own number, and no other times
FLOOD = 12_000
SILENT = 2_000
LARGE = 5 * 1024 * 1024
TIMEOUT = 90.0  # until a process that is told to stop is killed


async def in_parallel(watcher: Watcher, bodies: list[bytes], *, connections: int = 16) -> list[dict[str, Any]]:
    """Send reviews over some connections; return the answers.

    A connection that took longer than the Watcher gives it, as on a machine that stands still, may be ended by it. What
    it did not answer is sent again then, one after the other.
    """
    answers: list[dict[str, Any]] = []
    waiting = iter(bodies)
    cut_off: list[bytes] = []

    async def send() -> None:
        async with Connection.to(watcher.admission_port) as connection:
            for body in waiting:
                began = time.monotonic()
                try:
                    status, answer = await connection.post(body)
                except (asyncio.IncompleteReadError, ConnectionError):
                    if time.monotonic() - began < BOUNDS.request_seconds or connections == 1:
                        raise
                    cut_off.append(body)
                    return
                assert status == 200
                answers.append(msgspec.json.decode(answer)["response"])

    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(send())
    unanswered = [*cut_off, *waiting]
    return answers + (await in_parallel(watcher, unanswered, connections=1) if unanswered else [])


async def test_memory_stays_bounded_at_any_backlog_and_load(watchers: StartWatcher, tmp_path: Path) -> None:
    """Objects without end, of the longest names, while the control plane is away; then the largest bodies at once."""
    control_plane = ControlPlane()
    watcher = await watchers(control_plane.port, DRAIN_SECONDS="1")
    names = [f"{number:07}-{'n' * 240}" for number in range(FLOOD)]
    for some in range(0, FLOOD, 3000):
        answers = await in_parallel(watcher, [review(name) for name in names[some : some + 3000]])
        assert all(answer["allowed"] for answer in answers)
    await eventually(lambda: _at_least(watcher, "watcher_resyncs_total", 2), within=60)
    assert (await watcher.metrics())["watcher_outbox_oldest_age_seconds"] > 0

    large = [review(f"large-{number}", padding=LARGE // 2) for number in range(8)]
    answers = await in_parallel(watcher, large * 6, connections=38)
    assert {answer["uid"] for answer in answers} == {f"review-large-{number}" for number in range(8)}
    assert (await watcher.metrics())["watcher_admission_request_shed_total"] >= 1
    assert watcher.peak_megabytes() < MAX_MEGABYTES, "more memory than the Watcher may have"

    async with serving(control_plane, tmp_path):
        await eventually(lambda: control_plane.reported("RESYNC"), within=60)


async def test_unfinished_handshakes_take_no_memory_and_block_no_other_connection(
    watchers: StartWatcher, control_plane: ControlPlane
) -> None:
    watcher = await watchers(control_plane.port)
    silent = [await asyncio.open_connection("127.0.0.1", watcher.admission_port) for _ in range(SILENT)]
    answer = await watcher.review("meanwhile")
    assert answer.json()["response"]["allowed"]
    async with asyncio.timeout(60):
        await asyncio.gather(*(reader.read() for reader, _ in silent), return_exceptions=True)
    for _, writer in silent:
        writer.transport.abort()
    assert watcher.peak_megabytes() < MAX_MEGABYTES
    await eventually(lambda: control_plane.reported("RESYNC"), what="what may have been turned away is made up for")


async def test_only_clients_of_the_api_servers_ca_are_answered(
    watchers: StartWatcher, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Otherwise any Pod of the cluster may send a review of a change that nobody made."""
    now = datetime.now(UTC)
    ca, others = (create_ca(name, lifetime=timedelta(days=2), now=now) for name in ("api-server", "others"))
    (tmp_path / "api-server.crt").write_bytes(ca.certificate_pem)
    watcher = await watchers(control_plane.port, API_SERVER_CA=str(tmp_path / "api-server.crt"))
    with pytest.raises(httpx.TransportError):
        await watcher.review("without-a-certificate")
    with pytest.raises(httpx.TransportError):
        await _review_with(watcher, others, tmp_path)
    answer = await _review_with(watcher, ca, tmp_path)
    assert answer.json()["response"]["allowed"]
    await eventually(lambda: control_plane.objects("UPDATE") == {"api-server"})


async def _review_with(watcher: Watcher, ca: KeyPair, folder: Path) -> httpx.Response:
    pair = issue(ca, LeafRequest(common_name="api-server"), now=datetime.now(UTC))
    cert, key = folder / "client.crt", folder / "client.key"
    cert.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    context = ssl.create_default_context(cadata=CA.certificate_pem.decode())
    context.load_cert_chain(cert, key)
    url = f"https://127.0.0.1:{watcher.admission_port}/validate/lifecycle-manager"
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=60) as client:
        return await client.post(url, content=review("api-server"))


async def test_admission_latency_does_not_depend_on_the_control_plane(
    watchers: StartWatcher, control_plane: ControlPlane
) -> None:
    control_plane.status = 500
    watcher = await watchers(control_plane.port, DRAIN_SECONDS="1")

    async def fifty_reviews() -> None:
        for number in range(50):
            answer = await watcher.review(f"object-{number}")
            assert answer.json()["response"] == {"uid": f"review-object-{number}", "allowed": True}

    await watcher.notices(fifty_reviews)
    counted = await eventually(lambda: _counted(watcher, 'watcher_failed_kcp_total{error_reason="500"}'))
    assert counted["watcher_kcp_retries_total"] >= 1
    assert counted["watcher_outbox_entries"] >= 50
    control_plane.status = 200
    await eventually(lambda: len(control_plane.objects("UPDATE")) == 50, within=60)


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_honoured(watchers: StartWatcher, control_plane: ControlPlane, form: str) -> None:
    later = "280" if form == "seconds" else format_datetime(datetime.now(UTC) + timedelta(seconds=280), usegmt=True)
    control_plane.status, control_plane.headers = 429, {"retry-after": later}
    watcher = await watchers(control_plane.port, DRAIN_SECONDS="1", HEARTBEAT_SECONDS="0.05")
    await eventually(lambda: control_plane.requests >= 1)
    heartbeats = [await watcher.review(f"object-{number}") for number in range(20)]
    assert len(heartbeats) == 20
    assert control_plane.requests <= 8  # those that were on their way with the first


async def test_stop_delivers_pending_changes(watchers: StartWatcher, control_plane: ControlPlane) -> None:
    watcher = await watchers(control_plane.port, DRAIN_SECONDS="60")
    await watcher.notices(lambda: in_parallel(watcher, [review(f"object-{number}") for number in range(60)]))
    await watcher.process.stop(TIMEOUT)
    assert watcher.process.returncode == 0
    assert control_plane.objects("UPDATE") == {f"object-{n}" for n in range(60)}
    assert '"msg":"stopped"' in tail(watcher.log)


async def test_stop_logs_undelivered_changes(watchers: StartWatcher) -> None:
    watcher = await watchers(ControlPlane().port, DRAIN_SECONDS="0.5")
    await watcher.notices(lambda: watcher.review("kept-back"))
    await watcher.process.stop(TIMEOUT)
    assert watcher.process.returncode == 0
    last = msgspec.json.decode(tail(watcher.log, 1).encode())
    assert last["msg"] == "stopped before all changes were delivered"
    assert "UPDATE Thing default/kept-back" in last["of"]


async def test_restart_after_a_kill_sends_a_resync(watchers: StartWatcher, control_plane: ControlPlane) -> None:
    control_plane.status = 503
    first = await watchers(control_plane.port)
    await first.review("lost")
    await first.process.kill()
    control_plane.status = 200
    await watchers(control_plane.port)
    await eventually(lambda: control_plane.reported("RESYNC"))


async def test_each_replica_sends_events_with_its_own_epoch(
    watchers: StartWatcher, control_plane: ControlPlane
) -> None:
    replicas = [await watchers(control_plane.port) for _ in range(2)]
    for number in range(20):
        replica = replicas[number % 2]
        await replica.notices(partial(replica.review, f"object-{number}"))
    await eventually(lambda: len(control_plane.objects("UPDATE")) == 20)
    assert len({event["epoch"] for event in control_plane.events}) == 2
    for replica in replicas:
        await replica.process.kill()
        break
    await replicas[1].notices(lambda: replicas[1].review("after"))
    await eventually(lambda: any(each["watched"]["Name"] == "after" for each in control_plane.events))


async def test_logs_hold_no_contents_of_objects(watchers: StartWatcher, control_plane: ControlPlane) -> None:
    watcher = await watchers(control_plane.port)
    await watcher.notices(lambda: watcher.review("object", spec="a-secret-of-the-user"))
    await eventually(lambda: control_plane.reported("UPDATE"))
    await watcher.process.stop(TIMEOUT)
    text = watcher.log.read_text()
    assert "object" in text
    assert "a-secret-of-the-user" not in text
    assert all(msgspec.json.decode(line)["msg"] for line in text.splitlines())


async def _counted(watcher: Watcher, name: str) -> dict[str, float] | None:
    metrics = await watcher.metrics()
    return metrics if metrics.get(name) else None


async def _at_least(watcher: Watcher, name: str, count: float) -> bool:
    return (await watcher.metrics()).get(name, 0.0) >= count
