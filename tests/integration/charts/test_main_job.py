"""The main job with what the charts install: two times `helm install` in KCP, the Watcher brought by LM, no more."""

from tests.integration.charts.world import World


async def test_users_change_goes_through_what_helm_installed(world: World) -> None:
    await world.story.change_volume("110Gi")
    await world.story.change_volume("120Gi")
