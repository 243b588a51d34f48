"""A server that gives no answer is asked once, and then not before it answers a probe."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kube_runtime import Client, ClientOptions, ClusterUnreachable, KubeconfigPolicy, Resource
from kube_runtime.simulation import NeverAnswer, Refuse, SimulatedCluster, serve_simulation

NAMESPACES = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with serve_simulation() as simulation:
        yield simulation.cluster("cluster")


async def client_of(cluster: SimulatedCluster, *, circuit: bool = True) -> Client:
    options = ClientOptions(circuit=circuit, timeout_seconds=0.2)
    return await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=KubeconfigPolicy.permissive())


async def test_silent_server_costs_one_time_out(cluster: SimulatedCluster) -> None:
    silent = NeverAnswer()
    async with await client_of(cluster) as client:
        with cluster.ruled_by(silent):
            with pytest.raises(ClusterUnreachable) as first:
                await client.get(NAMESPACES, "default")
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(100):
                with pytest.raises(ClusterUnreachable) as later:
                    await client.get(NAMESPACES, "default")
                assert str(later.value) == str(first.value)
            assert loop.time() - began < 0.2
            assert silent.seen == 1
            with pytest.raises(ClusterUnreachable):
                await client.probe()
            assert client.failure is not None
        await client.probe()
        assert client.failure is None
        assert (await client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"


async def test_refusal_is_a_sign_of_life(cluster: SimulatedCluster) -> None:
    async with await client_of(cluster) as client:
        with cluster.ruled_by(NeverAnswer()), pytest.raises(ClusterUnreachable):
            await client.get(NAMESPACES, "default")
        with cluster.ruled_by(Refuse()):
            await client.probe()
        assert client.failure is None


async def test_client_without_a_circuit_asks_every_time(cluster: SimulatedCluster) -> None:
    silent = NeverAnswer()
    async with await client_of(cluster, circuit=False) as client:
        with cluster.ruled_by(silent):
            for _ in range(2):
                with pytest.raises(ClusterUnreachable):
                    await client.get(NAMESPACES, "default")
        assert silent.seen == 2
