"""Clusters that can't start, without any."""

import asyncio
from typing import Any

import pytest

from kyma_local.clusters import _running
from kyma_local.starting import StartFailed


class Failing:
    """A cluster that does not start."""

    def __init__(self, name: str, all_begun: asyncio.Barrier) -> None:
        self.name = name
        self._all_begun = all_begun
        self.is_stopped = False

    async def start(self) -> None:
        await self._all_begun.wait()
        raise StartFailed(f"{self.name} ended")

    async def stop(self) -> None:
        self.is_stopped = True


async def test_one_error_names_all_clusters_that_did_not_start() -> None:
    barrier = asyncio.Barrier(2)
    clusters: Any = tuple(Failing(name, barrier) for name in ("kcp", "skr-1"))
    with pytest.raises(StartFailed) as failed:
        async with _running(clusters):
            raise AssertionError("they did not start")
    assert {str(failed.value), *failed.value.__notes__} == {"kcp ended", "skr-1 ended"}
    assert all(each.is_stopped for each in clusters)
