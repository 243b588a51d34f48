"""Probes tell the truth of an event loop that can't speak for itself."""

import asyncio
import logging
import logging.handlers
import queue
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from kube_runtime import AddressUnusable, health
from kube_runtime.health import LoopMonitor, ProbeServer

TOLERATED = 0.2
TIMEOUT = 60.0
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    try:
        with DIRECTLY.open(f"http://{host}:{port}{path}", timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_blocked_loop_is_noticed_from_outside_and_where_it_hangs() -> None:
    monitor = LoopMonitor(interval_seconds=0.05)
    server = ProbeServer(monitor, {}, tolerated_seconds=TOLERATED)
    answer: list[tuple[int, str]] = []
    released = threading.Event()

    def kubelet(port: int) -> None:
        """Ask until the answer is no, then let the loop go on."""
        try:
            deadline = time.monotonic() + TIMEOUT
            while time.monotonic() < deadline:
                answer.append(ask(port, "/healthz"))
                if answer[-1][0] == 503:
                    return
        finally:
            released.set()

    with server.serving("127.0.0.1", 0) as port:
        running = asyncio.ensure_future(monitor.run())
        await asyncio.sleep(0.1)
        probing = threading.Thread(target=kubelet, args=(port,))
        probing.start()
        released.wait(TIMEOUT)  # nothing else runs on this loop until the kubelet has noticed
        probing.join()
        recovered = await asyncio.to_thread(_until_healthy, port)
        running.cancel()

    assert answer[-1][0] == 503
    assert "the event loop has been blocked for" in answer[-1][1]
    assert f"at {__file__}:" in answer[-1][1]
    assert recovered == (200, "ok\n")
    assert monitor.worst_lag_seconds >= TOLERATED


async def test_code_that_blocks_the_loop_is_logged_with_its_place() -> None:
    monitor, logged = LoopMonitor(), queue.Queue[logging.LogRecord]()
    handler = logging.handlers.QueueHandler(logged)
    logging.getLogger(health.__name__).addHandler(handler)
    running = asyncio.ensure_future(monitor.run())
    try:
        await asyncio.to_thread(_until_nowhere, monitor)
        message = logged.get(timeout=TIMEOUT).getMessage()  # nothing else runs on this loop until that
    finally:
        logging.getLogger(health.__name__).removeHandler(handler)
        running.cancel()
    place = f"{__file__}:[0-9]+ in test_code_that_blocks_the_loop_is_logged_with_its_place"
    assert re.fullmatch(f"the event loop is blocked at {place}; asyncio.to_thread keeps it free", message)


async def test_readiness_names_what_it_waits_for() -> None:
    ready = {"informers": False, "certificate": True}
    checks: dict[str, Any] = {name: lambda name=name: ready[name] for name in ready}
    with ProbeServer(LoopMonitor(), checks).serving("127.0.0.1", 0) as port:
        before = await asyncio.to_thread(ask, port, "/readyz")
        ready["informers"] = True
        after = await asyncio.to_thread(ask, port, "/readyz?verbose")

    assert before == (503, "not ready: informers\n")
    assert after == (200, "ok\n")


async def test_metrics_are_served_and_nothing_else() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things that were counted.", registry=registry).inc()
    with ProbeServer(LoopMonitor(), {}, registry=registry).serving("127.0.0.1", 0) as port:
        metrics = await asyncio.to_thread(ask, port, "/metrics")
        nothing = await asyncio.to_thread(ask, port, "/etc/passwd")

    assert "things_total 1.0" in metrics[1]
    assert nothing == (404, "not found\n")


@pytest.mark.parametrize(("error", "logged"), [(BrokenPipeError(), 0), (TimeoutError(), 0), (ValueError("bad"), 1)])
async def test_request_that_fails_is_logged_and_one_of_a_client_that_has_gone_is_not(
    error: Exception, logged: int, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> bool:
        raise error

    with ProbeServer(LoopMonitor(), {"fails": fail}).serving("127.0.0.1", 0) as port:
        with pytest.raises(ConnectionError):
            await asyncio.to_thread(ask, port, "/readyz")
        assert await asyncio.to_thread(ask, port, "/healthz") == (200, "ok\n")
    assert [each.message for each in caplog.records] == ["a request for probes or metrics failed"] * logged
    assert capsys.readouterr().err == ""


async def test_slow_clients_of_probes_take_no_more_than_some_threads() -> None:
    """Each byte begins another timeout."""
    with ProbeServer(LoopMonitor(), {}).serving("127.0.0.1", 0) as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(health.MAX_CONNECTIONS)]
        for each in slow:
            each.sendall(b"GET /healthz HTTP/1.1\r\na: ")
        assert await asyncio.to_thread(ask, port, "/healthz") == (200, "ok\n")
        assert await asyncio.to_thread(_is_closed, slow[0])
        for each in slow:
            each.close()


def _is_closed(client: socket.socket) -> bool:
    """Tell whether the server closes a connection well before its timeout."""
    client.settimeout(5.0)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_probes_without_a_host_are_served_by_ipv4_and_ipv6(host: str) -> None:
    if host == "[::1]" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    with ProbeServer(LoopMonitor(), {}).serving("", 0) as port:
        assert await asyncio.to_thread(ask, port, "/readyz", host) == (200, "ok\n")


async def test_address_that_is_taken_is_an_error() -> None:
    server = ProbeServer(LoopMonitor(), {})
    with (
        server.serving("127.0.0.1", 0) as port,
        pytest.raises(OSError, match="in use"),
        server.serving("127.0.0.1", port),
    ):
        pass


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return socket.has_dualstack_ipv6()
    except OSError:
        return False


def _until_nowhere(monitor: LoopMonitor) -> None:
    """Return once the loop is seen to wait, which blocks nothing."""
    deadline = time.monotonic() + TIMEOUT
    while place := monitor.where():
        assert time.monotonic() < deadline, place


def _until_healthy(port: int) -> tuple[int, str]:
    deadline = time.monotonic() + TIMEOUT
    while (answer := ask(port, "/healthz"))[0] != 200 and time.monotonic() < deadline:
        pass
    return answer


def test_port_that_is_none_is_named() -> None:
    with pytest.raises(AddressUnusable, match="99999"), ProbeServer(LoopMonitor(), {}).serving("127.0.0.1", 99999):
        pass
