"""API server and etcd end and come back: whoever follows them is as they are soon after."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions, KubeError
from tests.chaos.kube_runtime.following import change_everything, following, populate, put
from tests.chaos.kube_runtime.servers import Servers
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("servers that end")
OPTIONS = ClientOptions(qps=0, timeout_seconds=2, connect_timeout_seconds=2, watch_silence_seconds=20)


@pytest_asyncio.fixture
async def client(servers: Servers) -> AsyncIterator[Client]:
    """A client with nothing between it and the API server."""
    async with await Client.from_environment(servers.cluster.admin_kubeconfig, options=OPTIONS) as made:
        yield made


async def writes_work(server: Client, namespace: str) -> None:
    """Wait until the API server takes a write."""

    async def written() -> bool:
        try:
            await put(server, namespace, "probe", "1")
        except KubeError:
            return False
        return True

    await eventually(written, within=20)


@pytest.mark.parametrize("grace_seconds", [0.0, 1.0], ids=["killed", "stopped"])
async def test_api_server_that_is_started_again_is_followed_on(
    client: Client, direct: Client, servers: Servers, namespace: str, grace_seconds: float
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        await change_everything(direct, namespace, "just-before")
        await servers.end_api_server(grace_seconds)
        await eventually(lambda: follower.counts.failures >= 2)
        assert follower.informer.cache.list(), "what was known stays available"
        await servers.on_their_loop(servers.cluster.start_api_server())
        await writes_work(direct, namespace)
        await change_everything(direct, namespace, "after")
        await follower.agrees_with(direct)
        assert not follower.informer.last_error


async def test_etcd_that_is_started_again_goes_unnoticed(
    client: Client, direct: Client, servers: Servers, namespace: str
) -> None:
    await populate(direct, namespace)
    async with following(client, namespace) as follower:
        await change_everything(direct, namespace, "just-before")
        await servers.end_etcd(0)
        with pytest.raises(KubeError):
            await put(client, namespace, "cm-0", "nowhere to go")
        await servers.on_their_loop(servers.etcd.start_again())
        await writes_work(direct, namespace)
        await change_everything(direct, namespace, "after")
        await follower.agrees_with(direct)
