"""What an informer says of changes that it did not watch: the server may have another history by then."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import pytest

from kube_runtime import Backoff, Change, Client, Gone, Informer, ObjectList
from tests.kinds import CONFIG_MAPS

Document = dict[str, Any]


class Forgetful:
    """A server that gives lists one after another, the last one for ever, and forgets what was before each."""

    def __init__(self, *lists: list[Document]) -> None:
        self.lists = list(lists)

    async def pages(self, _resource: object, *_: object, **__: object) -> AsyncIterator[ObjectList[Document]]:
        items = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        newest = max((int(each["metadata"]["resourceVersion"]) for each in items), default=0)
        yield ObjectList(items=tuple(items), resource_version=str(1000 + newest))

    async def watch_lines(self, _resource: object, *_: object, **__: object) -> AsyncGenerator[list[bytes], None]:
        raise Gone(410, "Expired", "too old")
        yield []


def config_map(version: int, text: str = "", uid: str = "1") -> Document:
    return {"metadata": {"name": "a", "resourceVersion": str(version), "uid": uid, "generation": 2}, "data": {"": text}}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("after", "reported"),
    [
        ([config_map(5, "seen")], []),
        ([config_map(9, "of the same generation, on a server that was restored")], [True]),
        ([config_map(3, "of the backup")], [True]),
        ([config_map(9, "another object of that name", uid="2")], [True]),
        ([], [False]),
    ],
)
async def test_object_that_changed_while_nothing_was_watched_may_be_of_a_backup(
    after: list[Document], reported: list[bool]
) -> None:
    server = Forgetful([config_map(5, "seen")], after)
    informer = Informer(cast("Client", server), CONFIG_MAPS, backoff=Backoff(base=1.0, max=1.0, jitter=0.0))
    changes: list[Change[Document]] = []
    informer.on_change(changes.append)
    following = asyncio.create_task(informer.run())
    await asyncio.sleep(10)
    following.cancel()
    await asyncio.wait([following])
    assert [each.may_be_restored for each in changes] == [False, *reported]
