"""Somebody sets the clock of the machine: nothing that counts time may notice."""

import asyncio
import sys
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from kube_runtime import Client
from kube_runtime.leases import LeaderElection, LeaseTiming, Membership
from kube_runtime.leases.lease import LEASES
from tests.chaos.kube_runtime.following import change_everything, following, populate
from tests.chaos.proxy import Proxy
from tests.waiting import eventually

TIMING = LeaseTiming(lease_seconds=60, act_seconds=50.0, renew_seconds=0.3)  # a stall of the machine is no loss
HOUR = timedelta(hours=1)
KEYS = [f"key-{number}" for number in range(20)]
PACKAGE = Path(sys.modules["kube_runtime"].__file__ or "").parent


class WallClock:
    """The wall clock that the whole package reads, to be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = timedelta()
        true_time, clock = time.time, self

        class SetDatetime(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return super().now(tz) + clock.ahead

        monkeypatch.setattr(time, "time", lambda: true_time() + clock.ahead.total_seconds())
        for name, module in list(sys.modules.items()):
            if name.startswith("kube_runtime") and getattr(module, "datetime", None) is datetime:
                monkeypatch.setattr(module, "datetime", SetDatetime)


async def test_clock_that_is_set_changes_nothing(
    client: Client, direct: Client, proxy: Proxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = WallClock(monkeypatch)
    await populate(direct, namespace)
    leads: list[str] = []
    first, second = (election(direct, namespace, name) for name in ("first", "second"))
    member = Membership(direct, namespace=namespace, group="keepers", identity="member", timing=TIMING)
    async with asyncio.TaskGroup() as tasks, following(client, namespace, resync_seconds=0.5) as follower:
        standing = [tasks.create_task(first.run(lambda: lead(leads, "first")))]
        await eventually(lambda: leads)
        standing.append(tasks.create_task(second.run(lambda: lead(leads, "second"))))
        standing.append(tasks.create_task(member.run()))
        await eventually(lambda: all(map(member.owns, KEYS)))

        for ahead in (HOUR, -HOUR):
            clock.ahead = ahead
            await change_everything(direct, namespace, f"set-to-{ahead.days}")
            await follower.agrees_with(direct)
            proxy.cut_watches()
            await change_everything(direct, namespace, f"cut-at-{ahead.days}")
            await follower.agrees_with(direct)
            await renewed(direct, namespace, times=6)  # the other one has looked as often, an hour later or earlier

        assert (leads, first.is_leader, second.is_leader) == (["first"], True, False)
        assert all(map(member.owns, KEYS))
        for task in standing:
            task.cancel()


@pytest.mark.parametrize("name", ["time.time(", "utcnow("])
def test_nothing_in_the_package_counts_by_the_wall_clock(name: str) -> None:
    assert [path.name for path in PACKAGE.rglob("*.py") if name in path.read_text()] == []


def election(client: Client, namespace: str, name: str) -> LeaderElection:
    return LeaderElection(client, namespace=namespace, name="lease", identity=name, timing=TIMING)


async def lead(leads: list[str], name: str) -> None:
    leads.append(name)
    await asyncio.Event().wait()


async def renewed(client: Client, namespace: str, *, times: int) -> None:
    """Wait until the lease was renewed so often."""
    seen: set[str] = set()

    async def often() -> bool:
        seen.add((await client.get(LEASES, "lease", namespace)).metadata.resource_version)
        return len(seen) > times

    await eventually(often)
