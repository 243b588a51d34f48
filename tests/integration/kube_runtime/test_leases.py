"""Processes share keys, or one key, which makes a leader: also when they are killed, frozen, or come and go."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, NotFound, NotServed, leases
from kube_runtime.leases.handover import HandOver, NotHandedOver
from kube_runtime.leases.lease import LEASES, LeaseLost, LeaseTiming, elapsed
from kube_runtime.leases.membership import Member, Membership
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

TIMING = LeaseTiming(lease_seconds=120, act_seconds=100.0, renew_seconds=0.3)  # a stall of the machine is no loss
KEYS = [f"kyma-{number}" for number in range(200)]
CONTENDER = Path(__file__).with_name("contender.py")


class SettableClock:
    """A clock that can be put forward, as it jumps for a process that was frozen."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return elapsed() + self.ahead


@pytest.fixture(autouse=True)
def farewells_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give those who leave the time to say so: on a machine that stands still they would be waited for."""
    monkeypatch.setattr(leases.membership, "LEAVE_SECONDS", 60.0)


LEADER = "leader"


async def test_one_leads_and_the_next_follows_at_once_when_it_stops(client: Client, namespace: str) -> None:
    first, second = membership(client, namespace, "first"), membership(client, namespace, "second")
    async with taking_part(second):
        await eventually(lambda: second.owns(LEADER))
        async with taking_part(first):
            await eventually(lambda: len(second.members) == len(first.members) == 2)
            await eventually(lambda: first.owns(LEADER) != second.owns(LEADER), what="one of two leads")
        await eventually(lambda: second.owns(LEADER), what="the other one takes over")  # sooner than a lease ends
    assert (await client.list(LEASES, namespace)).items == ()


async def test_leader_that_was_frozen_writes_nothing_more(client: Client, namespace: str) -> None:
    clock = SettableClock()
    member = membership(client, namespace, "frozen", clock=clock)
    fenced = client.fenced_by(member.check)
    async with taking_part(member):
        await eventually(lambda: member.owns(LEADER))
        await fenced.apply(CONFIG_MAPS, "before", {"metadata": {"name": "before"}}, namespace, field_manager="x")

        clock.ahead += 3600
        assert not member.owns(LEADER)
        with pytest.raises(LeaseLost):
            await fenced.apply(CONFIG_MAPS, "after", {"metadata": {"name": "after"}}, namespace, field_manager="x")

    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "after", namespace)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
async def test_killed_and_frozen_leaders_are_replaced_and_never_come_back(
    client: Client, kcp: Path, namespace: str
) -> None:
    async with AsyncExitStack() as stack:
        killed = await stack.enter_async_context(contender(kcp, namespace, "killed"))
        dead = await leader(client, namespace, "killed")
        killed.send_signal(signal.SIGKILL)
        frozen = await stack.enter_async_context(contender(kcp, namespace, "frozen"))
        thawed = await leader(client, namespace, "frozen")
        frozen.send_signal(signal.SIGSTOP)
        last = await stack.enter_async_context(contender(kcp, namespace, "last"))
        await leader(client, namespace, "last")
        before = (await client.list(CONFIG_MAPS, namespace)).resource_version
        frozen.send_signal(signal.SIGCONT)
        seen = await writes_since(client, namespace, before, count=300)

        assert (killed.returncode, frozen.returncode, last.returncode) == (-signal.SIGKILL, None, None)
    late = [identity for identity in seen if identity in {dead, thawed}]
    assert late in ([], [thawed]), "whoever lost its lease writes no more than what it was sending when it froze"
    reigns = [identity for identity, _ in groupby(each for each in seen if each not in late)]
    assert len(reigns) == len(set(reigns)), "one writes at a time"


async def test_members_share_all_keys_and_never_one_twice(client: Client, namespace: str) -> None:
    members: list[Membership] = []
    twice: list[str] = []

    def watch() -> None:
        twice.extend(key for key in KEYS if sum(member.owns(key) for member in members) > 1)

    async with AsyncExitStack() as stack:
        for name in ("a", "b", "c"):
            member = membership(client, namespace, name, on_change=watch)
            members.append(member)
            await stack.enter_async_context(taking_part(member))
            await eventually(lambda: shared_by(members), what=f"{len(members)} members share the keys")
            watch()

        shares = [sum(member.owns(key) for key in KEYS) for member in members]
        assert min(shares) > len(KEYS) / 6
        before = {key: owner(members, key) for key in KEYS}

        async with taking_part(fourth := membership(client, namespace, "d", on_change=watch)):
            members.append(fourth)
            await eventually(lambda: shared_by(members), what="the fourth has its share")
            moved = {key for key in KEYS if owner(members, key) != before[key]}
            assert {owner(members, key) for key in moved} == {fourth}

        members.remove(fourth)
        await eventually(lambda: all_owned(members), what="the others take over what the fourth had")
        assert {key: owner(members, key) for key in KEYS} == before
    assert twice == []


async def test_keys_are_finished_before_they_are_given_away(client: Client, namespace: str) -> None:
    given_away: list[str] = []

    async def finish(is_lost: Any) -> None:
        given_away.extend(key for key in KEYS if is_lost(key))

    first = membership(client, namespace, "first", finish=finish)
    async with taking_part(first):
        await eventually(lambda: all_owned([first]))
        given_away.clear()
        async with taking_part(second := membership(client, namespace, "second")):
            await eventually(lambda: shared_by([first, second]))
            assert set(given_away) == {key for key in KEYS if second.owns(key)}


async def test_member_that_cannot_renew_owns_nothing(client: Client, namespace: str) -> None:
    clock = SettableClock()
    member = membership(client, namespace, "late", clock=clock)
    async with taking_part(member):
        await eventually(lambda: all_owned([member]))
        clock.ahead += 3600

        assert not any(member.owns(key) for key in KEYS)
        with pytest.raises(LeaseLost, match="could not renew its membership"):
            member.check()
        await eventually(lambda: all_owned([member]), what="it joins again")


async def test_member_that_succeeds_one_that_died_has_its_keys_at_once(client: Client, namespace: str) -> None:
    died = asyncio.ensure_future((dead := membership(client, namespace, "a")).run())
    async with taking_part(other := membership(client, namespace, "b")):
        await eventually(lambda: shared_by([dead, other]))
        dead._own = None  # noqa: SLF001 - a killed process deletes no Lease
        died.cancel()
        await asyncio.wait({died})

        async with taking_part(next_owner := membership(client, namespace, "a", succeeds=True)):
            await eventually(lambda: shared_by([next_owner, other]), what="the next_owner has its share")
            assert len(other.members) == 2


async def test_event_goes_to_the_member_that_owns_its_key(client: Client, namespace: str) -> None:
    taken: dict[str, list[str]] = {"a": [], "b": []}
    a, b = membership(client, namespace, "a"), membership(client, namespace, "b")

    async def deliver(to: Member, key: str, event: str) -> None:
        if event == "lost":
            raise ConnectionError
        taken["a" if to.identity == a.identity else "b"].append(f"{key}:{event}")

    async with taking_part(a), taking_part(b):
        await eventually(lambda: shared_by([a, b]))
        hand_over: HandOver[str] = HandOver(
            a, accept=lambda key, event: taken["a"].append(f"{key}:{event}"), deliver=deliver
        )
        mine, other = (next(key for key in KEYS if member.owns(key)) for member in (a, b))
        await hand_over.give(mine, "here")
        await hand_over.give(other, "there")

        assert taken == {"a": [f"{mine}:here"], "b": [f"{other}:there"]}
        with pytest.raises(NotHandedOver, match="ConnectionError"):
            await hand_over.give(other, "lost")


async def test_event_before_the_member_has_joined_waits_for_that(client: Client, namespace: str) -> None:
    member, taken = membership(client, namespace, "a"), list[str]()

    async def deliver(_to: Member, _key: str, _event: str) -> None:
        raise ConnectionError

    hand_over: HandOver[str] = HandOver(
        member, accept=lambda key, _event: taken.append(key), deliver=deliver, timeout_seconds=60
    )
    giving = asyncio.create_task(hand_over.give("early", "event"))
    async with taking_part(member):
        await giving
    assert taken == ["early"]


def membership(client: Client, namespace: str, name: str, **options: Any) -> Membership:
    return Membership(client, namespace=namespace, group="keepers", identity=name, **{"timing": TIMING, **options})


@asynccontextmanager
async def taking_part(member: Membership) -> AsyncIterator[None]:
    """Have a member take part while the block runs."""
    running = asyncio.ensure_future(member.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


def all_owned(members: Iterable[Membership]) -> bool:
    listed = list(members)
    return all(any(member.owns(key) for member in listed) for key in KEYS)


def shared_by(members: Iterable[Membership]) -> bool:
    """Tell whether every key has an owner, and every member some keys."""
    listed = list(members)
    return all_owned(listed) and all(any(map(member.owns, KEYS)) for member in listed)


def owner(members: Iterable[Membership], key: str) -> Membership | None:
    return next((member for member in members if member.owns(key)), None)


@asynccontextmanager
async def contender(kubeconfig: Path, namespace: str, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(CONTENDER), str(kubeconfig), namespace, name, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def leader(client: Client, namespace: str, name: str) -> str:
    """Wait until a contender writes, and return its identity as a member."""
    identities: list[str] = []

    async def writes() -> bool:
        try:
            throne = await client.get(CONFIG_MAPS, "throne", namespace)
        except (NotFound, NotServed):
            return False
        identities.append(throne["data"]["identity"])
        return bool(throne["data"]["holder"] == name)

    await eventually(writes, what=f"{name} leads")
    return identities[-1]


async def writes_since(client: Client, namespace: str, version: str, *, count: int) -> list[str]:
    """Return the identities behind so many writes after a version, none left out."""
    seen: list[str] = []
    async with (
        asyncio.timeout(120),
        aclosing(
            client.watch(CONFIG_MAPS, namespace, resource_version=version, field_selector="metadata.name=throne")
        ) as events,
    ):
        async for event in events:
            if event.object is not None:
                seen.append(event.object["data"]["identity"])
            if len(seen) >= count:
                break
    return seen
