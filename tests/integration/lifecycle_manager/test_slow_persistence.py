"""An event overtakes the write that it speaks of, because another webhook takes its time: nothing is lost by that."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kyma_demo.story import Story
from tests.integration.lifecycle_manager.programs import manager_with
from tests.integration.lifecycle_manager.slow_webhook import slow_changes
from tests.integration.lifecycle_manager.watching import is_well
from tests.waiting import eventually


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def without_interval(story: Story) -> AsyncIterator[Story]:
    """Module CRs are read when an event tells of them, and otherwise not for longer than a test waits."""
    async with manager_with(story.cast, "--module-config-requeue-success-interval=10m"):
        await eventually(lambda: is_well(story.stage))
        yield story


@pytest.mark.parametrize("seconds", [0.5, 5.0])
async def test_event_that_overtakes_its_write_is_not_lost(
    without_interval: Story, tmp_path: Path, seconds: float
) -> None:
    story = without_interval
    await story.change_volume("710Gi")
    async with slow_changes(story.stage, tmp_path, seconds) as webhook:
        asked, started = webhook.asked, time.monotonic()
        await story.patch_volume(f"{711 + int(seconds)}Gi")
        assert webhook.asked > asked
        assert time.monotonic() - started >= seconds  # the event was sent all that time ago
        await story.sees_volume(f"{711 + int(seconds)}Gi")
