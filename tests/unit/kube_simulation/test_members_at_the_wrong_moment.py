"""Members of a group that shares keys, when answers are lost or come late."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES, LeaseTiming, wall_time
from kube_runtime.leases.membership import GROUP_LABEL, VIEW, Membership
from kube_simulation import ApiRequest, Drop, Refuse, SimulatedCluster
from kube_simulation.requests import Answer
from kube_simulation.rules import Matcher, Proceed, Rule
from tests.waiting import eventually

TIMING = LeaseTiming(lease_seconds=120, act_seconds=100.0, renew_seconds=0.05)
SHORT = LeaseTiming(lease_seconds=2, act_seconds=1.5, renew_seconds=0.05)


class Hold(Rule):
    """Holds back the answers to requests that were done."""

    def __init__(self, matches: Matcher) -> None:
        self.released = asyncio.Event()
        self.held = 0
        self._matches = matches

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if self._matches(request):
            self.held += 1
            await self.released.wait()
        return answer


class Writes(Rule):
    def __init__(self, method: str) -> None:
        self.seen = 0
        self._method = method

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        self.seen += request.method == self._method
        return await proceed()


def is_list(request: ApiRequest) -> bool:
    return request.verb == "list"


def foreign(name: str, view: str) -> dict[str, Any]:
    labels, annotations = {GROUP_LABEL: "keepers"}, {VIEW: view}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": f"keepers-{name}", "labels": labels, "annotations": annotations},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 120, "renewTime": wall_time()},
    }


def membership(client: Client, **options: Any) -> Membership:
    given = {"timing": TIMING, **options}
    return Membership(client, namespace="default", group="keepers", identity="one", **given)


@asynccontextmanager
async def taking_part(member: Membership) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(member.run())
        yield
        running.cancel()


async def view_of(client: Client, member: Membership) -> list[str]:
    lease = await client.get(LEASES, f"keepers-{member.identity}", "default")
    return lease.metadata.annotations[VIEW].split()


async def test_member_stays_when_the_answer_to_a_renewal_is_lost(client: Client, cluster: SimulatedCluster) -> None:
    member = membership(client)
    async with taking_part(member):
        await eventually(lambda: member.owns("key"))
        identity = member.identity
        gaps: list[str] = []

        def is_renewal(request: ApiRequest) -> bool:
            if request.method == "PUT" and not member.owns("key"):
                gaps.append(member.identity)
            return request.method == "PUT"

        lost, writes = Drop(is_renewal, times=3, after=True), Writes("PUT")
        with cluster.ruled_by(lost, writes):
            await eventually(lambda: lost.seen == 3)
            before = writes.seen
            await eventually(lambda: writes.seen > before + 3)
        assert (member.identity, gaps, member.owns("key")) == (identity, [], True)


async def test_member_whose_lease_is_taken_joins_again(client: Client) -> None:
    member = membership(client)
    async with taking_part(member):
        await eventually(lambda: member.owns("key"))
        identity = member.identity
        stolen = {"spec": {"holderIdentity": "somebody else"}}
        await client.merge_patch(LEASES, f"keepers-{identity}", stolen, "default")
        await eventually(lambda: member.identity != identity)
        await eventually(lambda: member.owns("key"))


async def test_renewal_shows_the_view_just_published(client: Client, cluster: SimulatedCluster) -> None:
    member = membership(client)
    async with taking_part(member):
        await eventually(lambda: member.owns("key"))
        both = sorted([member.identity, "two"])
        hold, writes = Hold(is_list), Writes("PUT")
        with cluster.ruled_by(hold, writes):
            await client.create(LEASES, foreign("two", " ".join(both)), "default", field_manager="two")
            await eventually(lambda: hold.held)
            before = writes.seen
            await eventually(lambda: writes.seen > before + 1)
            assert await view_of(client, member) == both
            hold.released.set()
        await eventually(lambda: sum(member.owns(f"key-{number}") for number in range(100)) in range(10, 90))
        assert await view_of(client, member) == both


async def test_keys_of_a_view_that_the_lease_may_show_are_not_acted_on(
    client: Client, cluster: SimulatedCluster
) -> None:
    member = membership(client)
    keys = [f"key-{number}" for number in range(100)]
    async with taking_part(member):
        await eventually(lambda: all(map(member.owns, keys)))
        identity = member.identity
        both = sorted([identity, "two"])
        unanswered = Drop(lambda request: request.method == "PUT" and b"two" in request.body, after=True)
        with cluster.ruled_by(unanswered):
            await client.create(LEASES, foreign("two", " ".join(both)), "default", field_manager="two")
            await eventually(lambda: unanswered.seen)
            with cluster.ruled_by(Drop(lambda request: request.method == "PUT")):
                await client.delete(LEASES, "keepers-two", "default")
                await eventually(lambda: len(member.members) == 1)
                assert await view_of(client, member) == both
                assert not all(map(member.owns, keys))
        await eventually(lambda: all(map(member.owns, keys)))
        assert await view_of(client, member) == [identity]


async def test_lease_whose_creation_was_not_answered_is_no_other_member(
    client: Client, cluster: SimulatedCluster
) -> None:
    member = membership(client)
    lost = Drop(lambda request: request.method == "POST", times=1, after=True)
    with cluster.ruled_by(lost):
        async with taking_part(member):
            await eventually(lambda: member.owns("key"))
            assert lost.seen == 1
            assert [each.identity for each in member.members] == [member.identity]
            leases = (await client.list(LEASES, "default")).items
            assert [lease.spec.holder_identity for lease in leases] == [member.identity]


async def test_expired_member_is_one_until_its_lease_is_removed(client: Client, cluster: SimulatedCluster) -> None:
    member = membership(client, timing=SHORT)
    known: list[bool] = []

    def is_removal(request: ApiRequest) -> bool:
        if request.method == "DELETE" and request.name == "keepers-two":
            known.append("two" in {each.identity for each in member.members})
            return True
        return False

    async with taking_part(member):
        await eventually(lambda: member.owns("key"))
        await client.create(LEASES, foreign("two", "two"), "default", field_manager="two")
        with cluster.ruled_by(Refuse(is_removal)):
            await eventually(lambda: len(known) >= 3)
        assert all(known)
        await eventually(lambda: len(member.members) == 1)


async def test_member_that_joined_during_a_list_is_not_forgotten(client: Client, cluster: SimulatedCluster) -> None:
    seen: list[set[str]] = []
    member: Membership = membership(client, on_change=lambda: seen.append({each.identity for each in member.members}))
    async with taking_part(member):
        await eventually(lambda: member.owns("key"))
        hold = Hold(is_list)
        with cluster.ruled_by(hold):
            await client.create(LEASES, foreign("two", "two"), "default", field_manager="two")
            await eventually(lambda: hold.held)
            await client.create(LEASES, foreign("three", "three"), "default", field_manager="three")
            await eventually(lambda: len(member.members) == 3)
            seen.clear()
            hold.released.set()
        await eventually(lambda: len(seen) >= 2)
        assert all("three" in members for members in seen)
