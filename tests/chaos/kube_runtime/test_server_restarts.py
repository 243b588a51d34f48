"""API server and etcd end and come back: whoever follows them is as they are soon after."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from kube_runtime import Backoff, Client, ClientOptions, KubeError
from tests.chaos.kube_runtime.following import change_everything, following, populate, put
from tests.chaos.servers import Servers
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

OPTIONS = ClientOptions(qps=0, timeout_seconds=2, connect_timeout_seconds=2, watch_silence_seconds=20)


@pytest_asyncio.fixture(autouse=True)
async def servers_run_again(servers: Servers) -> AsyncIterator[None]:
    """Leave servers that run, whatever becomes of a test."""
    yield
    await servers.start_again()


@pytest_asyncio.fixture
async def client(servers: Servers) -> AsyncIterator[Client]:
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

    await eventually(written)


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
        await servers.start_again()
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
        await servers.start_again()
        await writes_work(direct, namespace)
        await change_everything(direct, namespace, "after")
        await follower.agrees_with(direct)


async def test_etcd_that_is_restored_from_a_backup_is_followed_into_the_past(
    direct: Client, servers: Servers, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An API server takes a watch from a version that it has not reached, and says nothing in it."""
    await populate(direct, namespace)
    backup = await servers.back_up()
    await writes_work(direct, namespace)
    alert = replace(OPTIONS, watch_silence_seconds=1.0)
    kubeconfig = servers.cluster.admin_kubeconfig
    hasty = Backoff(base=0.02, max=0.2)
    async with (
        await Client.from_environment(kubeconfig, options=alert) as client,
        following(client, namespace, backoff=hasty) as follower,
    ):
        for number in range(20):
            await change_everything(direct, namespace, f"lost-{number}")
        await follower.agrees_with(direct)
        await servers.restore(backup)
        await eventually(lambda: "decreased" in caplog.text)
        await follower.follows_into_the_past(direct)
        await change_everything(direct, namespace, "after")
        await follower.agrees_with(direct)


async def test_etcd_that_is_restored_with_raised_revisions_is_followed_at_once(
    client: Client, direct: Client, servers: Servers, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes documents to raise them: the versions of the lost changes are below that of the list that follows."""
    await populate(direct, namespace)
    backup = await servers.back_up()
    await writes_work(direct, namespace)
    async with following(client, namespace) as follower:
        for number in range(20):
            await change_everything(direct, namespace, f"lost-{number}")
        await follower.agrees_with(direct)
        seen = (await direct.list(CONFIG_MAPS, namespace)).resource_version
        await servers.restore(backup, beyond=int(seen) + 100)
        await writes_work(direct, namespace)
        await follower.follows_into_the_past(direct)
        await change_everything(direct, namespace, "after")
        await follower.agrees_with(direct)
    assert "decreased" not in caplog.text
