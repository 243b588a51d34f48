"""What is away comes back, and no change is lost meanwhile."""

from typing import Any

import pytest

from kube_runtime import ClusterUnreachable, Resource, dump_yaml
from lifecycle_manager.resources import KYMAS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import Kyma, SyncResource, find, names
from local.demo.stage import Stage
from local.demo.story import Story
from local.demo.witness import CONFIG_MAPS
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


async def test_lifecycle_manager_that_dies_while_it_applies_leaves_nothing_behind(story: Story) -> None:
    """Killed in the middle of a text, which somebody changes to another one before it is back."""
    stage = story.stage
    document: dict[str, Any] = {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": "cut-off", "namespace": names.KCP_NAMESPACE},
        "spec": {"kyma": "demo", "module": "cloud-resources", "resource": _config_maps("before", 150)},
    }
    await stage.kcp.create(SYNC_RESOURCES, document, names.KCP_NAMESPACE, field_manager="test")
    await eventually(lambda: _named(stage, "before-"), every=0.001)
    await story.cast.kill("lifecycle-manager")
    assert 0 < len(await _named(stage, "before-")) < 150

    document["spec"]["resource"] = _config_maps("after", 3)
    await stage.kcp.apply(SYNC_RESOURCES, "cut-off", document, names.KCP_NAMESPACE, field_manager="other")
    await story.cast.restart("lifecycle-manager")

    async def settled() -> bool:
        resource: SyncResource = await stage.kcp.get(SYNC_RESOURCES, "cut-off", names.KCP_NAMESPACE)
        return resource.status.state == "Ready" and resource.status.objects == "3/3"

    await eventually(settled, within=30)
    assert await _named(stage, "before-") == []
    assert len(await _named(stage, "after-")) == 3
    await stage.kcp.delete(SYNC_RESOURCES, "cut-off", names.KCP_NAMESPACE)


def _config_maps(prefix: str, count: int) -> str:
    return "---\n".join(
        dump_yaml(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{prefix}-{n}", "namespace": "default"}}
        )
        for n in range(count)
    )


async def _named(stage: Stage, prefix: str) -> list[str]:
    """Return the names of the ConfigMaps that begin so."""
    listed = await stage.skr.list(CONFIG_MAPS, "default")
    return [item["metadata"]["name"] for item in listed.items if item["metadata"]["name"].startswith(prefix)]
