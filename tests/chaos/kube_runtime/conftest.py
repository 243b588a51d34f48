"""A way to the servers that can be disturbed, and one that can't."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest_asyncio

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from tests.chaos.proxy import Proxy
from tests.chaos.servers import Servers
from tests.kinds import NAMESPACES
from tests.waiting import eventually

LONG_TIMEOUTS = ClientOptions(qps=0, timeout_seconds=60, connect_timeout_seconds=60, attempts=2)
SHORT_TIMEOUTS = ClientOptions(
    qps=0, timeout_seconds=2, connect_timeout_seconds=2, watch_silence_seconds=1.0, attempts=2
)


@pytest_asyncio.fixture(autouse=True)
async def no_task_is_left_over() -> AsyncIterator[None]:
    """Fail a test after which something goes on."""
    before = asyncio.all_tasks()
    yield
    allowed = before | {asyncio.current_task()}
    await eventually(lambda: not asyncio.all_tasks() - allowed, what="every task of the test has ended")


@pytest_asyncio.fixture
async def direct(servers: Servers, no_task_is_left_over: None) -> AsyncIterator[Client]:
    """A client whose requests nobody disturbs."""
    options = ClientOptions(qps=0, timeout_seconds=60)
    async with await Client.from_environment(servers.cluster.admin_kubeconfig, options=options) as made:
        yield made


@pytest_asyncio.fixture
async def proxy(servers: Servers, no_task_is_left_over: None) -> AsyncIterator[Proxy]:
    async with Proxy.start(servers.cluster.admin_kubeconfig) as running:
        yield running


@pytest_asyncio.fixture
async def client(proxy: Proxy) -> AsyncIterator[Client]:
    """A client that goes by the proxy, to which nothing happens but what a test does."""
    async with await Client.from_kubeconfig(
        proxy.kubeconfig(), options=LONG_TIMEOUTS, policy=KubeconfigPolicy.permissive()
    ) as made:
        yield made


@pytest_asyncio.fixture
async def short_timeouts(proxy: Proxy) -> AsyncIterator[Client]:
    """A client that goes by the proxy, and holds a watch to be broken after a second of silence.

    A machine that stands still for a second is silent as well. So no test that uses it counts what it did.
    """
    async with await Client.from_kubeconfig(
        proxy.kubeconfig(), options=SHORT_TIMEOUTS, policy=KubeconfigPolicy.permissive()
    ) as made:
        yield made


@pytest_asyncio.fixture
async def namespace(direct: Client) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await direct.create(NAMESPACES, {"metadata": {"name": name}}, field_manager="test")
    return name
