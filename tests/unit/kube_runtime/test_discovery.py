"""Which resource serves a kind: what is remembered of the answers of a server."""

import tracemalloc
from itertools import count
from typing import Any

import msgspec
import pytest

from kube_runtime import KindUnknown, NotServed
from kube_runtime.client.discovery import MAX_GROUP_VERSIONS, RestMapper
from kube_runtime.client.transport import ServerResponse


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


class HostileTransport:
    """Answers for each group with other kinds each time, after the one that exists."""

    def __init__(self) -> None:
        self.numbers = count()

    async def request(self, *_: object, **__: object) -> ServerResponse:
        made_up = [{"name": "things", "kind": f"Kind{next(self.numbers)}"} for _ in range(5_000)]
        kinds = [*made_up, {"name": "gardens", "kind": "Garden"}, {"name": "long", "kind": "K" * 1_000_000}]
        return ServerResponse(200, msgspec.json.encode({"resources": kinds}))


async def test_kinds_that_a_cluster_makes_up_are_remembered_within_a_bound() -> None:
    transport: Any = HostileTransport()
    seconds = count()
    mapper = RestMapper(transport, clock=lambda: float(next(seconds)))
    tracemalloc.start()
    for number in range(30):
        with pytest.raises(KindUnknown):
            await mapper.resource("gardens.example/v1", f"Unknown{number}")
    assert (await mapper.resource("gardens.example/v1", "Garden")).plural == "gardens"
    asked = next(transport.numbers)
    assert (await mapper.resource("gardens.example/v1", "Garden")).plural == "gardens"
    assert next(transport.numbers) == asked + 1
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 5_000_000
