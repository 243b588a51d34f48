"""Users change Module CRs while Pods and nodes fail: each change is in force in the end, without the next one."""

from collections.abc import Callable

import pytest

from tests.nodes.clusters import NodeClusters
from tests.nodes.faults import FAULTS, Fault
from tests.users import changing

LOST_SECONDS = 120.0  # reconciles at intervals are 240 s apart


@pytest.mark.parametrize("fault", [pytest.param(each, id=each.__name__) for each in FAULTS])
async def test_no_change_is_lost(
    world: NodeClusters, fault: Fault, record_property: Callable[[str, object], None]
) -> None:
    async with changing(world.walkthrough, within=LOST_SECONDS) as users:
        await fault(world)
    record_property("changes in force", users.summary)
