"""What one of several replicas keeps of the clusters that another one has."""

from typing import Any

import pytest

from kube_runtime import ALONE
from kube_runtime.sharding import Alone
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.settings import Settings
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, open_world


class OtherShare(Alone):
    """A replica beside one that has all clusters."""

    def owns(self, owner: str) -> bool:
        return False

    def holds(self, owner: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("sharding", "options", "is_whole"),
    [
        (OtherShare(), {}, False),
        (OtherShare(), {"ui_bind_address": "127.0.0.1:0"}, True),  # its page shows every cluster
        (ALONE, {}, True),
    ],
)
async def test_replica_with_the_fleet_page_keeps_all_clusters_whole(
    sharding: Any, options: dict[str, Any], is_whole: bool
) -> None:
    given = {"health_probe_bind_address": ":0", "metrics_bind_address": ":0", **options}
    async with open_world() as world:
        document = {"metadata": {"name": "one"}, "spec": {"channel": "regular"}}
        await world.kcp.apply(KYMAS, "one", document, KCP, field_manager="test")
        status = {"state": "Ready", "modules": [builders.module_status("api")]}
        await world.kcp.merge_patch(KYMAS, "one", {"status": status}, KCP, subresource="status")
        async with lifecycle_manager(Settings(given), world.kcp, sharding) as manager, manager.background():
            kymas = manager.informer(KYMAS)
            await eventually(kymas.list)
            (found,) = kymas.list()
    assert (found.status.state.value, bool(found.status.modules)) == ("Ready", is_whole)
