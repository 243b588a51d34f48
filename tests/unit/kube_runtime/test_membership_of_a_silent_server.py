"""A member whose server falls silent while the keys are being shared anew goes on taking part."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_runtime.leases import LeaseTiming, Membership
from kube_runtime.simulation import NeverAnswer, SimulatedCluster, is_write, serve_simulation
from tests.waiting import eventually

TIMING = LeaseTiming(lease_seconds=2, act_seconds=0.5, renew_seconds=0.1)
KEYS = [f"key-{number}" for number in range(50)]


async def test_member_outlives_a_server_that_is_silent_when_another_joins() -> None:
    async with serve_simulation() as simulation:
        cluster = simulation.cluster("one")
        async with client_of(cluster, "member") as mine, client_of(cluster, "other") as others:
            member, other = (
                Membership(client, namespace="default", group="keepers", identity=name, timing=TIMING)
                for client, name in ((mine, "member"), (others, "other"))
            )
            taking_part = [asyncio.create_task(member.run())]
            await eventually(lambda: all(map(member.owns, KEYS)))
            silent = NeverAnswer(lambda request: is_write(request) and request.user_agent == "member")
            with cluster.ruled_by(silent):
                taking_part.append(asyncio.create_task(other.run()))
                await eventually(lambda: all(map(other.owns, KEYS)), what="the other one takes over")
            await eventually(lambda: shared(member, other) or taking_part[0].done())
            assert not taking_part[0].done()
            for task in taking_part:
                task.cancel()
            await asyncio.wait(taking_part)


@asynccontextmanager
async def client_of(cluster: SimulatedCluster, name: str) -> AsyncIterator[Client]:
    policy, options = KubeconfigPolicy.permissive(), ClientOptions(user_agent=name)
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=policy, options=options) as client:
        yield client


def shared(*members: Membership) -> bool:
    return all(any(map(each.owns, KEYS)) for each in members) and all(
        any(each.owns(key) for each in members) for key in KEYS
    )
