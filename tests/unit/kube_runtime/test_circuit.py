"""A server that does not respond costs one request, and gets no other before it responds to a probe."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kube_runtime import Client, ClientOptions, ClusterUnreachable, KubeconfigPolicy
from kube_simulation import NeverAnswer, Refuse, SimulatedCluster
from tests.kinds import NAMESPACES
from tests.waiting import eventually


async def client_of(cluster: SimulatedCluster, *, circuit: bool = True, timeout_seconds: float = 0.2) -> Client:
    options = ClientOptions(circuit=circuit, timeout_seconds=timeout_seconds)
    return await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=KubeconfigPolicy.permissive())


async def test_silent_server_costs_one_time_out(cluster: SimulatedCluster) -> None:
    silent = NeverAnswer()
    async with await client_of(cluster) as client:
        with cluster.ruled_by(silent):
            with pytest.raises(ClusterUnreachable) as first:
                await client.get(NAMESPACES, "default")
            for _ in range(100):
                with pytest.raises(ClusterUnreachable) as later:
                    await client.get(NAMESPACES, "default")
                assert str(later.value) == str(first.value)
            assert silent.seen <= 1, "only the first was sent"
            with pytest.raises(ClusterUnreachable):
                await client.probe()
            assert client.failure is not None
        await eventually(lambda: answered_a_probe(client))
        assert client.failure is None
        assert await eventually(lambda: found(client, "default"))


async def test_time_of_many_silent_servers_is_not_up_at_the_same_moment(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    alarms: list[float] = []
    call_at = loop.call_at

    def noting(when: float, *given: Any, **options: Any) -> asyncio.TimerHandle:
        alarms.append(when)
        return call_at(when, *given, **options)

    async with await client_of(cluster, timeout_seconds=3600) as client:
        monkeypatch.setattr(loop, "call_at", noting)
        began = loop.time()
        await client.get(NAMESPACES, "default")
    ends = [when for when in alarms if when - began > 1800]
    assert ends
    assert not [when for when in ends if float(when).is_integer()]


async def test_refusal_is_a_sign_of_life(cluster: SimulatedCluster) -> None:
    async with await client_of(cluster) as client:
        with cluster.ruled_by(NeverAnswer()), pytest.raises(ClusterUnreachable):
            await client.get(NAMESPACES, "default")
        with cluster.ruled_by(Refuse()):
            await eventually(lambda: answered_a_probe(client))
        assert client.failure is None


async def test_client_without_a_circuit_asks_every_time(cluster: SimulatedCluster) -> None:
    silent = NeverAnswer()
    async with await client_of(cluster, circuit=False) as client:
        with cluster.ruled_by(silent):

            async def asked_twice() -> bool:
                with pytest.raises(ClusterUnreachable):
                    await client.get(NAMESPACES, "default")
                return silent.seen >= 2

            await eventually(asked_twice)


async def answered_a_probe(client: Client) -> bool:
    """Tell whether a probe is answered in the short time that the client gives it."""
    with suppress(ClusterUnreachable):
        await client.probe()
    return client.failure is None


async def found(client: Client, name: str) -> bool:
    """Tell whether a Namespace is found, in the short time that the client gives a request."""
    await answered_a_probe(client)  # a request that took too long has opened the circuit again
    try:
        return bool((await client.get(NAMESPACES, name))["metadata"]["name"] == name)
    except ClusterUnreachable:
        return False
