"""Somebody sets the clock of the machine: nothing that counts time may notice."""

import asyncio
import sys
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES, LeaseTiming
from kube_runtime.leases.membership import Membership
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
    first, second = (
        Membership(direct, namespace=namespace, group="keepers", identity=name, timing=TIMING)
        for name in ("first", "second")
    )
    async with asyncio.TaskGroup() as tasks, following(client, namespace, resync_seconds=0.5) as follower:
        taking_part = [tasks.create_task(member.run()) for member in (first, second)]
        await eventually(lambda: shared(first, second) and any(map(second.owns, KEYS)))  # both joined
        before = [first.owns(key) for key in KEYS]
        identities = (first.identity, second.identity)

        for ahead in (HOUR, -HOUR):
            clock.ahead = ahead
            await change_everything(direct, namespace, f"set-to-{ahead.days}")
            await follower.agrees_with(direct)
            proxy.cut_watches()
            await change_everything(direct, namespace, f"cut-at-{ahead.days}")
            await follower.agrees_with(direct)
            await renewed(direct, namespace, times=6)  # the other one has looked as often, an hour later or earlier

        assert (first.identity, second.identity) == identities, "nobody was held to be gone"
        assert [first.owns(key) for key in KEYS] == before
        assert shared(first, second)
        for task in taking_part:
            task.cancel()


@pytest.mark.parametrize("name", ["time.time(", "utcnow("])
def test_nothing_in_the_package_counts_by_the_wall_clock(name: str) -> None:
    assert [path.name for path in PACKAGE.rglob("*.py") if name in path.read_text()] == []


def shared(first: Membership, second: Membership) -> bool:
    """Whether each key is owned by exactly one of them."""
    return all(first.owns(key) != second.owns(key) for key in KEYS)


async def renewed(client: Client, namespace: str, *, times: int) -> None:
    """Wait until leases were renewed so often."""
    seen: set[str] = set()

    async def often() -> bool:
        listed = await client.list(LEASES, namespace)
        seen.add(max(lease.metadata.resource_version for lease in listed.items))
        return len(seen) > times

    await eventually(often)
