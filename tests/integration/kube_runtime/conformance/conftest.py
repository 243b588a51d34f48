"""Both servers, with a namespace of the test's own and the kind that the tests use."""

import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest_asyncio

from tests.integration.kube_runtime.conformance.both import Both, Server, server_of
from tests.integration.kube_runtime.conformance.widgets import CRDS, WIDGETS, definition
from tests.waiting import eventually


@pytest_asyncio.fixture
async def both(kcp: Path, simulated: Path) -> AsyncIterator[Both]:
    async with server_of("real", kcp) as real, server_of("simulated", simulated) as simulation:
        made = Both(real, simulation, f"test-{uuid.uuid4().hex[:8]}")
        await made.own("POST", "/api/v1/namespaces", {"metadata": {"name": made.namespace}})
        await made.own("POST", CRDS, definition())
        for server in (real, simulation):
            await eventually(partial(_serves_widgets, server), what=f"{server.name} serves the kind")
        yield made


async def _serves_widgets(server: Server) -> bool:
    code, _ = await server.ask("GET", WIDGETS.replace("{ns}", "default"), None, "application/json")
    return code == 200
