"""What the tests of all domains start from."""

from collections.abc import AsyncIterator

import pytest

from tests.world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Simulated clusters with an empty KCP."""
    async with open_world() as opened:
        yield opened
