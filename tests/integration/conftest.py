"""A real API server, a client to it, and a namespace for each test."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions
from kyma_local.pytest_plugin import running_api_server
from lifecycle_manager.process.crd_installation import install_crds
from tests.kinds import NAMESPACES

asyncio.set_event_loop(None)  # else looptime creates one that is not closed


@pytest.fixture(scope="package")
def real() -> Iterator[Path]:
    """The kubeconfig of the administrator of a cluster that the tests of a worker share."""
    with running_api_server() as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="package")
def kcp(real: Path) -> Path:
    """The kubeconfig of a cluster's administrator."""
    return real


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def installed_crds(kcp: Path) -> None:
    """Apply our CRDs, once for the tests of a worker: an API server works longer at that than at most tests."""
    await install_crds(kcp)


@pytest_asyncio.fixture
async def client(kcp: Path) -> AsyncIterator[Client]:
    async with await Client.from_environment(kcp, options=ClientOptions(qps=0, timeout_seconds=60)) as made:
        yield made


@pytest_asyncio.fixture
async def namespace(client: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}}, field_manager="test")
    return name
