"""Two connections that are joined, on both event loops: the default one of tests, and that of the commands."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from kyma_local.joining import join


async def lose_the_far_side() -> None:
    ours, near = socket.socketpair()
    far, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        near_side, far_side = await asyncio.open_connection(sock=near), await asyncio.open_connection(sock=far)
        joined = asyncio.create_task(join(near_side, far_side))
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(ours, b"first")
        assert await loop.sock_recv(theirs, 5) == b"first"
        far_side[1].transport.abort()
        await loop.sock_sendall(ours, b"data for nobody")
        async with asyncio.timeout(60):
            assert await loop.sock_recv(ours, 1) == b"", "the near side is closed, too"
            ours.close()
            await joined
            for _, writer in (near_side, far_side):
                await writer.wait_closed()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_data_for_a_side_that_is_gone_is_dropped(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    run(lose_the_far_side())
