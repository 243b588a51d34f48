"""How long an informer waits before it asks a server again, by a clock that is not the machine's."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from itertools import pairwise
from typing import Any, cast

import pytest

from kube_runtime import Backoff, Client, Gone, Informer, ObjectList
from tests.kinds import CONFIG_MAPS

LIST_SECONDS = 30.0


class SlowAndForgetful:
    """A server that is so busy that a list takes longer than it remembers: no watch can go on from there."""

    def __init__(self) -> None:
        self.listed_at: list[float] = []

    async def pages(self, _resource: object, *_: object, **__: object) -> AsyncIterator[ObjectList[dict[str, Any]]]:
        self.listed_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(LIST_SECONDS)
        yield ObjectList(items=(), resource_version=str(len(self.listed_at)))

    async def watch_lines(self, _resource: object, *_: object, **__: object) -> AsyncGenerator[list[bytes], None]:
        raise Gone(410, "Expired", "too old")
        yield []


@pytest.mark.looptime
async def test_list_that_is_always_too_old_for_a_watch_is_not_repeated_without_pause() -> None:
    """A server that is so busy that lists take longer than it remembers is not helped by more lists."""
    server = SlowAndForgetful()
    informer = Informer(cast("Client", server), CONFIG_MAPS, backoff=Backoff(base=1.0, max=60.0, jitter=0.0))
    following = asyncio.create_task(informer.run())
    await asyncio.sleep(6 * LIST_SECONDS)
    following.cancel()
    await asyncio.wait([following])
    pauses = [round(after - before - LIST_SECONDS, 3) for before, after in pairwise(server.listed_at)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
