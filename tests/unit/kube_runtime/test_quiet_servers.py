"""A server on which nothing happens is no failure: nothing is listed again, and nothing is in the log."""

import asyncio
import logging

import pytest

from kube_runtime import Client, Informer, KubeconfigPolicy, RuntimeMetrics
from kube_simulation import serve_simulation
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

HOUR = 3600.0


@pytest.mark.looptime
@pytest.mark.parametrize(
    "bookmark_seconds", [60.0, 120.0, HOUR], ids=["each minute", "every other", "at the end alone"]
)
async def test_quiet_hour_needs_one_list_and_no_warning(
    bookmark_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """A kind that did not change since the start of its API server has no bookmarks for minutes."""
    caplog.set_level(logging.WARNING)
    metrics = RuntimeMetrics()
    policy = KubeconfigPolicy(allow_insecure=True)
    async with (
        serve_simulation(bookmark_seconds=bookmark_seconds) as simulation,
        await Client.from_kubeconfig(simulation.cluster("one").kubeconfig, policy=policy) as client,
    ):
        informer = Informer(client, CONFIG_MAPS, metrics=metrics)
        following = asyncio.create_task(informer.run())
        await asyncio.sleep(HOUR)
        counts = metrics.informer(CONFIG_MAPS.plural_name)
        assert (counts.lists, counts.failures) == (1, 0)
        assert counts.watches <= 14
        await client.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "default", field_manager="user")
        await eventually(lambda: any(each["metadata"]["name"] == "late" for each in informer.list()))
        following.cancel()
        await asyncio.wait([following])
    assert caplog.text == ""
