"""A real API server with the CRDs of the API package."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client
from lifecycle_manager.process.crd_installation import apply_crds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one worker: CRDs belong to the whole cluster."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("api"))


@pytest_asyncio.fixture
async def served(client: Client) -> AsyncIterator[Client]:
    """A client to the API server, which serves every kind."""
    await apply_crds(client)
    yield client
