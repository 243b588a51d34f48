"""Large answers and bodies leave the event loop to others between their parts."""

import asyncio
from typing import Any

from kube_runtime.client.bodies import PART_BYTES, RequestBody
from kube_runtime.client.limits import LargeAnswers


async def test_large_answers_take_turns() -> None:
    """However many are read, each turn of the event loop has a part of one of them at most."""
    answers, turn = LargeAnswers(), 0
    read: list[int] = []
    ends = asyncio.Event()

    async def count_turns() -> None:
        nonlocal turn
        while not ends.is_set():
            turn += 1
            await asyncio.sleep(0)

    async def read_parts() -> None:
        for _ in range(5):
            await answers.turn()
            read.append(turn)

    counting = asyncio.create_task(count_turns())
    await asyncio.gather(*(read_parts() for _ in range(10)))
    ends.set()
    await counting
    assert len(read) == len(set(read)) == 50


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
