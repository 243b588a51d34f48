"""What the steps of a reconcile share is entered once, and left when it ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from kube_runtime import KubeError, Request


@dataclass(eq=False)
class Clients:
    opened: int = 0
    closed: int = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[object]:
        self.opened += 1
        try:
            yield object()
        finally:
            self.closed += 1


async def test_steps_share_a_client_that_is_closed_at_the_end() -> None:
    clients = Clients()
    async with Request("there", None) as request:
        first = await request.shared("client", clients.connect)
        assert await request.shared("client", clients.connect) is first
        assert (clients.opened, clients.closed) == (1, 0)
    assert (clients.opened, clients.closed) == (1, 1)


async def test_client_is_closed_where_a_step_fails() -> None:
    clients = Clients()

    async def reconcile() -> None:
        async with Request("there", None) as request:
            await request.shared("client", clients.connect)
            raise KubeError("refused")

    with pytest.raises(KubeError, match="refused"):
        await reconcile()
    assert (clients.opened, clients.closed) == (1, 1)


async def test_reconcile_that_needs_no_client_does_not_connect() -> None:
    clients = Clients()
    async with Request("there", None):
        pass
    assert clients.opened == 0
