"""Which resource serves a kind: what is remembered of the answers of a server."""

from typing import Any

import pytest

from kube_runtime import KindUnknown, NotServed
from kube_runtime.client.discovery import MAX_GROUP_VERSIONS, RestMapper


class Transport:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, _method: str, target: str, **_: object) -> None:
        self.asked.append(target)
        raise NotServed(404, "NotFound", "there is no such group")


async def test_groups_that_texts_make_up_are_remembered_within_a_bound() -> None:
    transport: Any = Transport()
    mapper = RestMapper(transport, clock=lambda: 0.0)

    async def ask(number: int) -> None:
        with pytest.raises(KindUnknown):
            await mapper.resource(f"made-up-{number}.example/v1", "Thing")

    await ask(0)
    await ask(0)
    assert len(transport.asked) == 1
    for number in range(1, MAX_GROUP_VERSIONS + 1):
        await ask(number)
    await ask(0)
    assert transport.asked[-1] == transport.asked[0]
    assert len(transport.asked) == MAX_GROUP_VERSIONS + 2
