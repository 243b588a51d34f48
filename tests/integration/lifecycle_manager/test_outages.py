"""What is away comes back, and no change is lost meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from kube_runtime import ClusterUnreachable, Resource, dump_yaml
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from kyma_demo.witness import CONFIG_MAPS
from lifecycle_manager.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import SyncResource, names
from tests.integration.lifecycle_manager.slow_webhook import held_config_maps
from tests.integration.lifecycle_manager.watching import has_taken, moment, told, webhook_says
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
    await story.sees_volume("511Gi", within=120)
    await story.change_volume("512Gi")


async def test_edit_while_lifecycle_manager_is_away_arrives_when_it_is_back(story: Story) -> None:
    await story.change_volume("520Gi")
    await story.cast.stop("lifecycle-manager")
    await story.patch_volume("521Gi")
    await story.cast.restart("lifecycle-manager")
    await story.sees_volume("521Gi", within=120)


async def test_edit_while_the_watcher_is_away_arrives_at_its_start(story: Story) -> None:
    """Nothing tells of the change; the RESYNC at the Watcher's start does."""
    await story.change_volume("530Gi")
    await story.cast.stop("skr-watcher")
    await story.patch_volume("531Gi")
    began = moment()
    await story.cast.restart("skr-watcher")
    await eventually(lambda: has_taken(story.stage, " /", began, "RESYNC"))
    await story.sees_volume("531Gi")


async def test_killed_module_manager_catches_up_at_its_start(story: Story) -> None:
    await story.change_volume("540Gi")
    await story.cast.kill("module-manager")
    await story.patch_volume("541Gi")
    await story.cast.restart("module-manager")
    await story.sees_volume("541Gi")
    configs = await story.stage.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
    assert any("541Gi" in config.spec.resource for config in configs.items)


async def test_watcher_that_falls_silent_is_told_and_changes_are_found_without_it(story: Story) -> None:
    stage = story.stage
    await story.change_volume("390Gi")
    began = moment()
    await story.cast.stop("skr-watcher")
    try:
        message = await eventually(lambda: webhook_says(stage, "False", "WatcherSilent"))
        assert "changes are found at intervals" in message
        await eventually(lambda: told(stage, "WatcherSilent", began), within=120)  # what repeats is told late
        await story.patch_volume("391Gi")
        await story.sees_volume("391Gi")
    finally:
        await story.cast.restart("skr-watcher")

    await eventually(lambda: webhook_says(stage, "True", "WatcherReady"))
    await eventually(lambda: told(stage, "WatcherReady", began), within=120)
    await story.change_volume("392Gi")


async def test_lifecycle_manager_that_dies_while_it_applies_leaves_nothing_behind(story: Story, tmp_path: Path) -> None:
    """Killed in the middle of a text, which somebody changes to another one before it is back."""
    stage = story.stage
    document: dict[str, Any] = {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": "cut-off", "namespace": names.KCP_NAMESPACE},
        "spec": {"kyma": "demo", "module": "cloud-resources", "resource": _config_maps("before", 150)},
    }
    async with held_config_maps(stage, tmp_path, "before-1"):
        await stage.kcp.create(SYNC_RESOURCES, document, names.KCP_NAMESPACE, field_manager="test")
        await eventually(lambda: _named(stage, "before-"))
        await story.cast.kill("lifecycle-manager")
        assert 0 < len(await _named(stage, "before-")) < 150

    document["spec"]["resource"] = _config_maps("after", 3)
    await stage.kcp.apply(SYNC_RESOURCES, "cut-off", document, names.KCP_NAMESPACE, field_manager="other")
    await story.cast.restart("lifecycle-manager")

    async def settled() -> bool:
        resource: SyncResource = await stage.kcp.get(SYNC_RESOURCES, "cut-off", names.KCP_NAMESPACE)
        return resource.status.state == "Ready" and resource.status.objects == "3/3"

    await eventually(settled)
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
