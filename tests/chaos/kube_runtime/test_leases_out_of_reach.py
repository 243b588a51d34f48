"""A holder that can't reach the API server stops acting before others begin, and what it still sends is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise

import pytest

from kube_runtime import Client, KubeconfigPolicy, KubeError
from kube_runtime.leases.lease import LeaseLost, LeaseTiming
from kube_runtime.leases.membership import Membership
from tests.chaos.kube_runtime.conftest import SHORT_TIMEOUTS
from tests.chaos.proxy import Proxy, status
from tests.chaos.servers import Servers
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

SHORT = LeaseTiming(lease_seconds=3, act_seconds=2.0, renew_seconds=0.3)
PAUSE_SECONDS = 0.02
KEYS = [f"key-{number}" for number in range(50)]
LEADER = "leader"


@asynccontextmanager
async def stalled(proxy: Proxy) -> AsyncIterator[None]:
    proxy.stall()
    try:
        yield
    finally:
        proxy.resume()


@asynccontextmanager
async def refused(proxy: Proxy) -> AsyncIterator[None]:
    await proxy.refuse()
    try:
        yield
    finally:
        await proxy.accept()


@asynccontextmanager
async def overloaded(proxy: Proxy) -> AsyncIterator[None]:
    with proxy.answering(lambda _asked: status(429, "TooManyRequests", Retry_After="30")):
        yield


@asynccontextmanager
async def unknown(proxy: Proxy) -> AsyncIterator[None]:
    with proxy.answering(lambda _asked: status(401, "Unauthorized")):
        yield


Fault = Callable[[Proxy], AbstractAsyncContextManager[None]]
FAULTS: list[Fault] = [stalled, refused, overloaded, unknown]


@dataclass(slots=True)
class Reign:
    """One time of leading: who, and from when to when."""

    name: str
    began: float
    ended: float = float("inf")


class Candidate:
    """Shares one key and, while it owns that, writes its name again and again; records when it could."""

    def __init__(self, client: Client, namespace: str, group: str, name: str) -> None:
        self.member = Membership(client, namespace=namespace, group=group, identity=name, timing=SHORT)
        self.wrote_at: list[float] = []
        self.reigns: list[Reign] = []
        self._name = name
        self._throne = f"throne-{group}"
        self._namespace = namespace
        self._fenced = client.fenced_by(self.member.check)

    @property
    def leads(self) -> bool:
        """Tell whether the key is this candidate's."""
        return self.member.owns(LEADER)

    async def run(self) -> None:
        """Take part until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.member.run())
            tasks.create_task(self._lead())

    async def write(self) -> None:
        """Write, if that is still allowed."""
        document = {"metadata": {"name": self._throne}, "data": {"holder": self._name}}
        await self._fenced.apply(CONFIG_MAPS, self._throne, document, self._namespace, field_manager=self._name)
        self.wrote_at.append(asyncio.get_running_loop().time())

    async def _lead(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            if self.leads:
                self.reigns.append(reign := Reign(self._name, clock()))
                while self.leads:
                    with suppress(KubeError, LeaseLost):
                        await self.write()
                    await asyncio.sleep(PAUSE_SECONDS)
                reign.ended = clock()
            await asyncio.sleep(PAUSE_SECONDS)


async def test_leader_out_of_reach_ends_before_the_next_one_begins(
    servers: Servers, direct: Client, namespace: str
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for fault in FAULTS:
            tasks.create_task(cut_off_a_leader(servers, direct, namespace, fault))


async def test_member_out_of_reach_owns_nothing_when_others_take_over(
    servers: Servers, direct: Client, namespace: str
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for fault in FAULTS:
            tasks.create_task(cut_off_a_member(servers, direct, namespace, fault))


async def cut_off_a_leader(servers: Servers, direct: Client, namespace: str, fault: Fault) -> None:
    """Have two stand for election, cut the leader off by a fault, and see who writes when.

    On a machine that stands still for a while a lease is lost without that, and won by the one or the other. So what
    is told is when each leads and writes, not who of them.
    """
    name = fault.__name__
    async with reach(servers) as (proxy, client), asyncio.TaskGroup() as tasks:
        cut_off = Candidate(client, namespace, name, "cut-off")
        other = Candidate(direct, namespace, name, "other")
        standing = [tasks.create_task(cut_off.run())]
        await eventually(lambda: cut_off.wrote_at)
        standing.append(tasks.create_task(other.run()))
        async with fault(proxy):
            await eventually(lambda: len(other.wrote_at) >= 20)
            await eventually(lambda: not cut_off.member.active)
            with pytest.raises(LeaseLost):
                await cut_off.write()
        done = len(other.wrote_at) + len(cut_off.wrote_at)
        await eventually(lambda: len(other.wrote_at) + len(cut_off.wrote_at) >= done + 20)
        one_leads_at_a_time(cut_off, other)
        for task in standing:
            task.cancel()


def one_leads_at_a_time(*candidates: Candidate) -> None:
    """Check that nobody wrote any more when the next one began."""
    reigns = sorted((reign for each in candidates for reign in each.reigns), key=lambda reign: reign.began)
    assert {reign.name for reign in reigns} == {"cut-off", "other"}
    for before, after in pairwise(reigns):
        assert before.name == after.name or last_write(before, candidates) < after.began, reigns


def last_write(reign: Reign, candidates: Iterable[Candidate]) -> float:
    (candidate,) = (each for each in candidates if reign in each.reigns)
    return max((moment for moment in candidate.wrote_at if moment <= reign.ended), default=reign.began)


async def cut_off_a_member(servers: Servers, direct: Client, namespace: str, fault: Fault) -> None:
    """Have two share keys, cut one off by a fault, and see who owns what."""
    twice: list[str] = []
    group = f"keepers-{fault.__name__}"
    async with reach(servers) as (proxy, client), asyncio.TaskGroup() as tasks:
        cut_off, other = (
            Membership(each, namespace=namespace, group=group, identity=name, timing=SHORT)
            for each, name in ((client, "cut-off"), (direct, "other"))
        )

        def note_shared_keys() -> bool:
            twice.extend(key for key in KEYS if cut_off.owns(key) and other.owns(key))
            return True

        taking_part = [tasks.create_task(member.run()) for member in (cut_off, other)]
        await eventually(lambda: shared(cut_off, other))
        async with fault(proxy):
            await eventually(lambda: note_shared_keys() and all(map(other.owns, KEYS)), every=0.005)
            assert not any(map(cut_off.owns, KEYS))
            await eventually(lambda: note_shared_keys() and not cut_off.active, every=0.005)
            with pytest.raises(LeaseLost):
                cut_off.check()
        await eventually(lambda: note_shared_keys() and shared(cut_off, other), every=0.005)
        for task in taking_part:
            task.cancel()
    assert not twice


@asynccontextmanager
async def reach(servers: Servers) -> AsyncIterator[tuple[Proxy, Client]]:
    """Give a client with a proxy of its own between it and the API server."""
    async with Proxy.start(servers.cluster.admin_kubeconfig) as proxy:
        policy = KubeconfigPolicy.permissive()
        async with await Client.from_kubeconfig(proxy.kubeconfig(), options=SHORT_TIMEOUTS, policy=policy) as client:
            yield proxy, client


def shared(*members: Membership) -> bool:
    """Tell whether every key has an owner, and every member some of them."""
    return all(any(member.owns(key) for member in members) for key in KEYS) and all(
        any(map(member.owns, KEYS)) for member in members
    )


def test_leader_that_is_killed_is_replaced_within_twenty_seconds_by_default() -> None:
    timing = LeaseTiming()
    assert timing.lease_seconds + timing.renew_seconds <= 20
