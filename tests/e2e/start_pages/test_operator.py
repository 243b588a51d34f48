"""The operator's page: a fleet that is explained, changed, broken and repaired."""

import sys
from pathlib import Path

import pytest

from lifecycle_manager.contract.resources import MODULE_ROLLOUTS
from lifecycle_manager_api import names
from tests.e2e.start_pages.playground import Playground, config_maps_of, kyma_of
from tests.e2e.start_pages.reader import Reader

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads running processes from /proc"),
]
READY = {"demo": "Ready", "second": "Ready"}


async def test_each_command_of_the_operators_page_does_what_it_says(reader: Reader, clusters: Playground) -> None:
    async def first_cluster_is_ready() -> None:
        assert await clusters.states() == {"demo": "Ready"}
        assert await clusters.greetings() == ["1.0.0", ""]

    async def second_has_joined() -> None:
        await clusters.wait_for(READY, ["1.0.0", "1.0.0"])

    async def volumes_are_there() -> None:
        assert {"default-nfs-media", "default-nfs-archive"} <= {*await config_maps_of(clusters.second)}

    async def mistake_is_corrected() -> None:
        await clusters.wait_for(READY, ["1.0.0", "1.0.0"])
        kyma = await kyma_of(clusters.second)
        assert [each.name for each in kyma.spec.modules] == ["greeting", "cloud-resources"]

    async def new_version_is_everywhere() -> None:
        await clusters.wait_for(READY, ["1.1.0", "1.1.0"])

    async def broken_version_is_taken_back() -> None:
        await clusters.wait_for(READY, ["1.1.0", "1.1.0"])
        listed = (await clusters.kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE)).items
        rollouts = {each.metadata.name: each for each in listed}
        assert rollouts["greeting-regular-4"].spec.undoes == "greeting-regular-3"
        assert rollouts["greeting-regular-3"].spec.version == "2.0.0"

    judges = {
        "1": first_cluster_is_ready,
        "2": second_has_joined,
        "3": volumes_are_there,
        "4": mistake_is_corrected,
        "5": new_version_is_everywhere,
        "6": broken_version_is_taken_back,
    }
    await reader.follow(Path("docs/start/operator.md"), judges)
