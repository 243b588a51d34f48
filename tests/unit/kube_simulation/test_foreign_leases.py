"""A Lease that nobody renews takes keys away for as long as the members' own Leases last, whatever it says."""

import asyncio
from typing import Any

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES, LeaseTiming, wall_time
from kube_runtime.leases.membership import GROUP_LABEL, VIEW, Membership
from tests.waiting import eventually

TIMING = LeaseTiming(lease_seconds=2, act_seconds=1.5, renew_seconds=0.05)
KEYS = [f"kyma-{number}" for number in range(1000)]
CLAIM: dict[str, Any] = {
    "apiVersion": LEASES.api_version,
    "kind": LEASES.kind,
    "metadata": {"name": "keepers-foreign", "labels": {GROUP_LABEL: "keepers"}, "annotations": {VIEW: "foreign"}},
    "spec": {"holderIdentity": "foreign", "leaseDurationSeconds": 2**31 - 1, "renewTime": wall_time()},
}


async def test_duration_above_the_configured_one_is_cut_to_it(client: Client) -> None:
    member = Membership(client, namespace="default", group="keepers", identity="one", timing=TIMING)
    async with asyncio.TaskGroup() as tasks:
        taking_part = tasks.create_task(member.run())
        await eventually(lambda: all(map(member.owns, KEYS)))

        await client.create(LEASES, CLAIM, "default", field_manager="foreign")
        await eventually(lambda: not any(map(member.owns, KEYS)))

        await eventually(lambda: all(map(member.owns, KEYS)))
        leases = (await client.list(LEASES, "default")).items
        assert [lease.spec.holder_identity for lease in leases] == [member.identity]
        taking_part.cancel()
