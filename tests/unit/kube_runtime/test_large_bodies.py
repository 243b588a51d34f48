"""Large answers share the memory, and large bodies leave the event loop to others between their parts."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, ResponseInvalid
from kube_runtime.client.bodies import PART_BYTES, RequestBody
from kube_runtime.client.limits import FREE_BYTES, MIB, AnswerMemory
from tests.kinds import CONFIG_MAPS
from tests.kubeconfigs import kubeconfig
from tests.serving import serving
from tests.waiting import eventually


def test_large_answers_share_the_memory_and_small_ones_are_always_read() -> None:
    answers = AnswerMemory(3 * MIB, per_server=2 * MIB)
    with answers.reading("a") as grow:
        grow(FREE_BYTES + 2 * MIB)
        with answers.reading("a") as another, pytest.raises(ResponseInvalid, match="other large answers"):
            another(FREE_BYTES + 1)
        with answers.reading("b") as of_another_server:
            of_another_server(FREE_BYTES + MIB)
            with pytest.raises(ResponseInvalid):
                of_another_server(FREE_BYTES + MIB + 1)
        with answers.reading("b") as small:
            small(FREE_BYTES)
    with answers.reading("a") as grow:
        grow(FREE_BYTES + 2 * MIB)


async def test_server_that_does_not_end_its_answers_fills_no_more_than_its_share() -> None:
    sent = 0
    ends = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b" " * (FREE_BYTES + MIB))
        sent += 1
        await ends.wait()
        return response

    async with serving(answer) as host:
        config = kubeconfig({}, server=f"http://{host}")
        policy, memory = KubeconfigPolicy(allow_insecure=True), AnswerMemory(4 * MIB, 2 * MIB)
        options = ClientOptions(answer_memory=memory)
        async with await Client.from_kubeconfig(config, options=options, policy=policy) as client:
            reading = [asyncio.ensure_future(client.get(CONFIG_MAPS, "x", "y")) for _ in range(5)]
            await eventually(lambda: sent == 5 and sum(each.done() for each in reading) == 3)
            refused = [each.exception() for each in reading if each.done()]
            assert {type(each) for each in refused} == {ResponseInvalid}
            ends.set()
            await asyncio.gather(*reading, return_exceptions=True)


async def test_large_body_is_sent_in_parts() -> None:
    """Else its encryption would be one turn of the event loop."""
    body = bytes(range(256)) * 2_000
    writer: Any = _Writer()
    sending = asyncio.create_task(RequestBody(body, "application/json").write(writer))
    others = 0
    while not sending.done():
        others += 1
        await asyncio.sleep(0)
    assert b"".join(writer.parts) == body
    assert [len(part) for part in writer.parts] == [PART_BYTES] * 3 + [len(body) - 3 * PART_BYTES]
    assert others >= len(writer.parts)
    shorter: Any = _Writer()
    await RequestBody(body, "application/json").write_with_length(shorter, PART_BYTES + 1)
    assert b"".join(shorter.parts) == body[: PART_BYTES + 1]


class _Writer:
    """Keeps what is written, as the writer of a request does."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    async def write(self, chunk: bytes) -> None:
        self.parts.append(chunk)
