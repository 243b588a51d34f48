"""Large bodies leave the event loop to others between their parts."""

import asyncio
from typing import Any

from kube_runtime.client.bodies import PART_BYTES, RequestBody


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
