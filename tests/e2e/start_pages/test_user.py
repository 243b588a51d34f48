"""The user's page: a module that is enabled, configured, misconfigured and removed, beside another one that stays."""

import sys
from pathlib import Path
from typing import Any

import pytest

from lifecycle_manager_api import names
from tests.e2e.start_pages.playground import SKR, Playground, config_maps_of, kyma_of, modules_of
from tests.e2e.start_pages.reader import Reader
from tests.kinds import CONFIG_MAPS, INFRASTRUCTURES

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="the playground was tried on Linux alone"),
]
VOLUMES = {"default-nfs-media", "default-nfs-archive"}


async def test_each_command_of_the_users_page_does_what_it_says(reader: Reader, clusters: Playground) -> None:
    skr = clusters.demo
    before = await kyma_of(skr)
    other = (await skr.get(CONFIG_MAPS, "greeting", SKR))["metadata"]["uid"]

    async def infrastructure() -> Any:
        return await skr.get(INFRASTRUCTURES, names.DEFAULT_KYMA_NAME, SKR)

    async def other_stays() -> None:
        kyma = await kyma_of(skr)
        assert kyma.spec.modules[0] == before.spec.modules[0]
        assert (kyma.spec.channel, kyma.metadata.labels) == (before.spec.channel, before.metadata.labels)
        assert (await skr.get(CONFIG_MAPS, "greeting", SKR))["metadata"]["uid"] == other

    async def nothing_has_changed() -> None:
        assert (await kyma_of(skr)).metadata.generation == before.metadata.generation

    async def module_is_enabled() -> None:
        assert await modules_of(skr) == {"greeting": "Ready", "cloud-resources": "Ready"}
        await other_stays()

    async def volumes_are_there() -> None:
        assert {*await config_maps_of(skr)} >= VOLUMES
        assert (await infrastructure())["status"]["state"] == "Ready"

    async def mistake_is_corrected() -> None:
        found = await infrastructure()
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 3
        assert {*await config_maps_of(skr)} >= VOLUMES

    async def module_is_gone() -> None:
        assert await modules_of(skr) == {"greeting": "Ready"}
        assert not VOLUMES & {*await config_maps_of(skr)}
        await other_stays()

    judges = {
        "1": nothing_has_changed,
        "2": module_is_enabled,
        "3": volumes_are_there,
        "4": mistake_is_corrected,
        "5": module_is_gone,
    }
    await reader.follow(Path("docs/start/user.md"), judges)
