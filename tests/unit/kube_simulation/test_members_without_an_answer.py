"""A member of a group that shares keys goes on when the API server takes longer than the member may wait."""

import asyncio

from kube_runtime import Client
from kube_runtime.leases.lease import LeaseTiming
from kube_runtime.leases.membership import Membership
from kube_simulation import ApiRequest, NeverAnswer, SimulatedCluster
from tests.waiting import eventually

TIMING = LeaseTiming(lease_seconds=2, act_seconds=0.5, renew_seconds=0.05)


async def test_view_that_could_not_be_published_in_time_is_published_later(
    client: Client, cluster: SimulatedCluster
) -> None:
    member = Membership(client, namespace="default", group="keepers", identity="one", timing=TIMING)
    tried: list[str] = []

    def is_publication(request: ApiRequest) -> bool:
        if request.method != "PUT":
            return False
        tried.append(request.name)
        return True

    async with asyncio.TaskGroup() as tasks:
        taking_part = tasks.create_task(member.run())
        with cluster.ruled_by(NeverAnswer(is_publication)):
            await eventually(lambda: len(tried) >= 3)  # so the time of the first was up
            assert not member.owns("key")
        await eventually(lambda: member.owns("key"))
        taking_part.cancel()
