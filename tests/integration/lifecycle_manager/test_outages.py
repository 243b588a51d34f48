"""What is away comes back, and no change is lost meanwhile."""

import pytest

from kube_runtime import ClusterUnreachable
from lifecycle_manager.resources import MODULE_CONFIGS
from lifecycle_manager_api import names
from local.demo.story import Story


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
