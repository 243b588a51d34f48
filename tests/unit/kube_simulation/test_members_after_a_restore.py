"""Members of a group that shares keys, when the API server is restored from a backup with lower versions."""

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES
from kube_runtime.leases.membership import ADDRESS
from kube_simulation import SimulatedCluster
from tests.unit.kube_simulation.test_members_at_the_wrong_moment import SHORT, foreign, membership, taking_part
from tests.waiting import eventually

WRITES_AFTER_THE_BACKUP = 2_000
"""More than a member makes while the test waits."""


async def test_keys_of_a_member_that_died_with_the_restore_are_taken_over(
    client: Client, cluster: SimulatedCluster
) -> None:
    member = membership(client, timing=SHORT)
    keys = [f"key-{number}" for number in range(100)]
    async with taking_part(member):
        await eventually(lambda: all(map(member.owns, keys)))
        both = " ".join(sorted([member.identity, "two"]))
        await client.create(LEASES, foreign("two", both), "default", field_manager="two")
        backup = cluster.objects()
        for number in range(WRITES_AFTER_THE_BACKUP):
            cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{number}"}})
        await client.merge_patch(LEASES, "keepers-two", {"metadata": {"annotations": {ADDRESS: "new"}}}, "default")
        await eventually(lambda: [each.address for each in member.members if each.address == "new"])
        assert 0 < sum(map(member.owns, keys)) < len(keys)

        cluster.roll_back(backup)
        await eventually(lambda: all(map(member.owns, keys)))
        assert cluster.version < WRITES_AFTER_THE_BACKUP
