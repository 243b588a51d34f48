"""A replica of a large fleet does not look at all owners before it may have any."""

import asyncio
from collections.abc import Callable, Collection

from kube_runtime import Client
from kube_runtime.leases.lease_sharding import LeaseSharding
from tests.waiting import eventually

OWNERS = frozenset({"kyma-1", "kyma-2"})


class CountingWork:
    """Work that counts how often somebody asks for all owners."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun: list[frozenset[str]] = []

    def owners(self) -> Collection[str]:
        self.asked += 1
        return OWNERS

    def begin(self, gained: Collection[str], lost: Collection[str]) -> None:
        self.begun.append(frozenset(gained))

    async def finish(self, is_lost: Callable[[str], bool]) -> None: ...


async def test_owners_are_asked_for_once_they_can_be_owned(client: Client) -> None:
    sharding, work = LeaseSharding(client, namespace="default", group="keepers", name="one"), CountingWork()
    async with asyncio.TaskGroup() as tasks:
        taking_part = tasks.create_task(sharding.run(work))
        await eventually(lambda: work.begun)
        assert (work.asked, work.begun) == (1, [OWNERS])
        taking_part.cancel()
