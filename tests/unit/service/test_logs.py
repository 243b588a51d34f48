"""What is logged at the level INFO."""

import logging
from collections.abc import Iterator

import httpx
import pytest
import structlog

from lifecycle_manager.process.logs import configure_logs


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in ("aiohttp.access", "uvicorn.access", "asyncio", "httpx")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
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
