"""A real API server, a client to it, and a namespace for each test.

With KUBE_RUNTIME_KUBECONFIG set, the cluster behind that kubeconfig is used, and no local one is started.
"""

import asyncio
import os
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions
from kyma_local.clusters import LocalClusters
from tests.kinds import NAMESPACES

asyncio.set_event_loop(None)  # else looptime creates one that is not closed


@pytest.fixture(scope="package")
def kcp() -> Iterator[Path]:
    """The kubeconfig of a cluster's administrator."""
    given = os.environ.get("KUBE_RUNTIME_KUBECONFIG")
    if given:
        yield Path(given)
        return
    ready: Future[Path] = Future()
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(ready, stop)), name="clusters")
    thread.start()
    try:
        yield ready.result(timeout=900)
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="package")
def administrator(kcp: Path) -> str:
    return kcp.read_text()


@pytest_asyncio.fixture
async def client(kcp: Path) -> AsyncIterator[Client]:
    async with await Client.from_environment(kcp, options=ClientOptions(qps=0, timeout_seconds=60)) as made:
        yield made


@pytest_asyncio.fixture
async def namespace(client: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}}, field_manager="test")
    return name


async def _serve(ready: "Future[Path]", stop: threading.Event) -> None:
    """Run the clusters on their own event loop, which also runs between tests."""
    try:
        async with LocalClusters.start(skrs=0) as clusters:
            ready.set_result(clusters.kcp.admin_kubeconfig)
            await asyncio.to_thread(stop.wait)
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
