"""An event precedes its write, because another webhook is slow: the change is not lost."""

import time
from pathlib import Path

import pytest

from kyma_demo.walkthrough import Walkthrough
from tests.integration.lifecycle_manager.slow_webhook import slow_updates


@pytest.mark.usefixtures("on_events_only")
@pytest.mark.parametrize("seconds", [0.5, 5.0])
async def test_event_that_precedes_its_write_is_not_lost(
    walkthrough: Walkthrough, tmp_path: Path, seconds: float
) -> None:
    await walkthrough.change_volume("710Gi")
    async with slow_updates(walkthrough.environment, tmp_path, seconds) as webhook:
        requests, started = webhook.requests, time.monotonic()
        await walkthrough.patch_volume(f"{711 + int(seconds)}Gi")
        assert webhook.requests > requests
        assert time.monotonic() - started >= seconds  # the event was sent before the delay
        await walkthrough.wait_for_volume(f"{711 + int(seconds)}Gi")
