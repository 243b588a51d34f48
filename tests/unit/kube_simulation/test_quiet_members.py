"""What members that share keys cost while nothing changes: one write for each renewal, and no read."""

from kube_runtime import Client
from kube_simulation import SimulatedCluster
from tests.unit.kube_simulation.test_members_at_the_wrong_moment import membership, taking_part
from tests.waiting import eventually

LEASES = "leases.coordination.k8s.io"


async def test_members_that_agree_only_renew(client: Client, cluster: SimulatedCluster) -> None:
    one, two = membership(client), membership(client)
    async with taking_part(one), taking_part(two):
        await eventually(lambda: one.has_share and two.has_share and len(one.members) == len(two.members) == 2)
        await eventually(lambda: all(one.owns(key) != two.owns(key) for key in map(str, range(100))))
        since = cluster.requests()[-1].number

        def only_renewed() -> bool:
            """Tell whether both have renewed often since anything else was requested: a busy machine delays them."""
            nonlocal since
            found = cluster.requests(lambda record: record.verb != "watch", since=since)
            if others := [each for each in found if (each.verb, each.resource) != ("update", LEASES)]:
                since = others[-1].number
            return not others and len({each.name for each in found}) == 2 and len(found) >= 20

        await eventually(only_renewed)
