"""The Watcher as a process of its own, between a test in the API server's place and a control plane of the test's."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.watcher_process import ControlPlane, Watcher, serving, start_watcher

StartWatcher = Callable[..., Awaitable[Watcher]]


@pytest.fixture
async def control_plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    control_plane = ControlPlane()
    async with serving(control_plane, tmp_path):
        yield control_plane


@pytest.fixture
async def watchers(tmp_path: Path, control_plane: ControlPlane) -> AsyncIterator[StartWatcher]:
    """Start Watchers: `watchers(control_plane.port, **environment)`. They end first: without it they wait."""
    async with AsyncExitStack() as stack:

        async def start(kcp_port: int, **environment: str) -> Watcher:
            return await start_watcher(stack, tmp_path, kcp_port, environment)

        yield start
