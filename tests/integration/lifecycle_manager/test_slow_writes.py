"""An event precedes its write, because another webhook is slow: the change is not lost."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kyma_demo.story import Story
from tests.integration.lifecycle_manager.event_path import is_watcher_ready
from tests.integration.lifecycle_manager.programs import manager_with
from tests.integration.lifecycle_manager.slow_webhook import slow_updates
from tests.waiting import eventually


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def without_interval(story: Story) -> AsyncIterator[Story]:
    """Module CRs are read on events only; the interval is longer than a test waits."""
    async with manager_with(story.cast, "--module-config-requeue-success-interval=10m"):
        await eventually(lambda: is_watcher_ready(story.stage))
        yield story


@pytest.mark.parametrize("seconds", [0.5, 5.0])
async def test_event_that_precedes_its_write_is_not_lost(
    without_interval: Story, tmp_path: Path, seconds: float
) -> None:
    story = without_interval
    await story.change_volume("710Gi")
    async with slow_updates(story.stage, tmp_path, seconds) as webhook:
        requests, started = webhook.requests, time.monotonic()
        await story.patch_volume(f"{711 + int(seconds)}Gi")
        assert webhook.requests > requests
        assert time.monotonic() - started >= seconds  # the event was sent before the delay
        await story.sees_volume(f"{711 + int(seconds)}Gi")
