"""A server that is not trusted can't fill the memory with a list, be it long or without an end."""

from collections.abc import Awaitable, Callable

import pytest

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, ResponseInvalid
from kube_simulation import SimulatedCluster
from tests.kinds import CONFIG_MAPS


async def read_whole(client: Client) -> int:
    return len((await client.list(CONFIG_MAPS, "default", page_size=2)).items)


async def read_revisions(client: Client) -> int:
    return len(await client.list_revisions(CONFIG_MAPS, "default"))


@pytest.mark.parametrize(("read", "too_little"), [(read_whole, 5000), (read_revisions, 500)])
async def test_list_ends_where_it_is_longer_than_all_its_pages_may_be(
    cluster: SimulatedCluster, read: Callable[[Client], Awaitable[int]], too_little: int
) -> None:
    for number in range(6):
        metadata = {"name": f"map-{number}", "namespace": "default"}
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b" * 1000}})
    for most, fits in ((None, True), (100_000, True), (too_little, False)):
        options = ClientOptions(max_list_bytes=most)
        policy = KubeconfigPolicy.permissive()
        async with await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy) as client:
            if fits:
                assert await read(client) == 6
                continue
            with pytest.raises(ResponseInvalid, match=f"longer than {too_little} bytes"):
                await read(client)


async def test_list_of_untyped_objects_has_no_more_values_than_one_answer(
    cluster: SimulatedCluster,
) -> None:
    for number in range(6):
        metadata = {"name": f"map-{number}", "namespace": "default"}
        data = {f"key-{number}": "" for number in range(100)}
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    policy = KubeconfigPolicy.permissive()
    for most, fits in ((5_000, True), (600, False)):
        options = ClientOptions(max_values=most)
        async with await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy) as client:
            assert len(await client.list_revisions(CONFIG_MAPS, "default")) == 6
            if fits:
                assert await read_whole(client) == 6
                continue
            with pytest.raises(ResponseInvalid, match=f"the list has more than {most} values"):
                await read_whole(client)
