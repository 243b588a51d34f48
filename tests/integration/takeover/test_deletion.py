"""A Kyma that is deleted while the versions change takes everything along, although ours has installed nothing."""

from lifecycle_manager.resources import KYMAS
from tests.integration.takeover import seeding
from tests.integration.takeover.conftest import KCP, World


async def test_kyma_that_was_deleted_before_the_takeover_goes_with_all_of_it(world: World) -> None:
    await world.kcp.delete(KYMAS, seeding.KYMA, KCP)
    async with world.running():
        await world.until_nothing_is_left()
