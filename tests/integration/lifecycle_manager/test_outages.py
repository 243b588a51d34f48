"""What is away comes back, and no change is lost meanwhile."""

from typing import Any

import pytest

from kube_runtime import ClusterUnreachable, Resource
from lifecycle_manager.resources import KYMAS, MODULE_CONFIGS
from lifecycle_manager_api import Kyma, find, names
from local.demo.stage import Stage
from local.demo.story import Story
from tests.waiting import eventually

EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)


async def test_edit_while_kcp_is_down_succeeds_and_arrives_when_it_is_back(story: Story) -> None:
    await story.change_volume("510Gi")
    kcp = story.stage.local_kcp
    assert kcp is not None
    await kcp.stop_api_server()
    with pytest.raises(ClusterUnreachable):
        await story.stage.kcp.server_version()
    await story.patch_volume("511Gi")  # the user's write meets no error
    await kcp.start_api_server()
    await story.sees_volume("511Gi", within=60)
    await story.change_volume("512Gi")


async def test_edit_while_lifecycle_manager_is_away_arrives_when_it_is_back(story: Story) -> None:
    await story.change_volume("520Gi")
    await story.cast.stop("lifecycle-manager")
    await story.patch_volume("521Gi")
    await story.cast.restart("lifecycle-manager")
    await story.sees_volume("521Gi", within=60)


async def test_edit_while_the_watcher_is_away_arrives_at_its_start(story: Story) -> None:
    """Nothing tells of the change; the RESYNC at the Watcher's start does, well before the interval."""
    await story.change_volume("530Gi")
    await story.cast.stop("skr-watcher")
    await story.patch_volume("531Gi")
    await story.cast.restart("skr-watcher")
    await story.sees_volume("531Gi", within=20)


async def test_killed_module_manager_catches_up_at_its_start(story: Story) -> None:
    await story.change_volume("540Gi")
    await story.cast.kill("module-manager")
    await story.patch_volume("541Gi")
    await story.cast.restart("module-manager")
    await story.sees_volume("541Gi", within=60)
    configs = await story.stage.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
    assert any("541Gi" in config.spec.resource for config in configs.items)


async def test_watcher_that_falls_silent_is_told_and_changes_are_found_without_it(story: Story) -> None:
    stage = story.stage
    await story.change_volume("390Gi")
    await story.cast.stop("skr-watcher")
    try:
        message = await eventually(lambda: webhook_says(stage, "False", "WatcherSilent"), within=30)
        assert "changes are found at intervals" in message
        await eventually(lambda: told(stage, "WatcherSilent"))
        await story.patch_volume("391Gi")
        await story.sees_volume("391Gi", within=20)
    finally:
        await story.cast.restart("skr-watcher")

    await eventually(lambda: webhook_says(stage, "True", "WatcherReady"), within=15)
    await eventually(lambda: told(stage, "WatcherReady"))
    await story.change_volume("392Gi")


async def webhook_says(stage: Stage, status: str, reason: str) -> str | None:
    """Return the message of the SKRWebhook condition if it has a status and reason."""
    kyma: Kyma = await stage.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
    condition = find(kyma.status.conditions, "SKRWebhook")
    return condition.message if condition and (condition.status, condition.reason) == (status, reason) else None


async def told(stage: Stage, reason: str) -> bool:
    """Tell whether an Event about the Kyma has a reason."""
    events = await stage.kcp.list(EVENTS, names.KCP_NAMESPACE, field_selector="regarding.kind=Kyma")
    return any(event["reason"] == reason for event in events.items)
