"""What is logged at the level INFO."""

import asyncio
import json
import logging
from collections.abc import Iterator

import httpx
import pytest
import structlog
import uvloop

from kyma_diagnostics.logs import configure_logs


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in ("aiohttp.access", "uvicorn.access", "asyncio", "httpx")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("asyncio").filters.clear()
    for name, former in levels.items():
        logging.getLogger(name).setLevel(former)
    structlog.reset_defaults()


async def test_requests_to_other_replicas_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("INFO", "json")
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    async with httpx.AsyncClient(transport=transport) as client:
        await client.post("https://replica-2:8443/events")
    logging.getLogger("lifecycle_manager").info("ready")
    logged = capsys.readouterr().err.splitlines()
    assert len(logged) == 1
    assert "ready" in logged[0]


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("warning", "json")
    structlog.get_logger("demo").info("quiet")
    structlog.get_logger("demo").warning("loud", count=1)
    (line,) = capsys.readouterr().err.splitlines()
    logged = json.loads(line)
    assert (logged["level"], logged["logger"], logged["msg"], logged["count"]) == ("warning", "demo", "loud", 1)


def test_connection_that_its_peer_has_closed_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """uvloop reports this error when it reads TLS data that arrived before a connection reset."""

    async def report(text: str, error: Exception) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})

    closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    configure_logs("INFO", "json")
    for text, error in (
        ("Fatal error on SSL protocol", closed),
        ("Fatal error on SSL protocol", RuntimeError("a mistake")),
        ("a task failed", closed),
    ):
        uvloop.run(report(text, error))
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert ["a mistake" in each["exception"] for each in logged] == [True, False]
    assert [each["level"] for each in logged] == ["error", "error"]
