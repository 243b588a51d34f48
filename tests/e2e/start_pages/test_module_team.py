"""The module team's page: from a project to a module in a cluster, a user's mistake, and a change of the function."""

import sys
from pathlib import Path

import pytest

from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager_api import names
from tests.e2e.start_pages.playground import Playground, config_maps_of, modules_of
from tests.e2e.start_pages.reader import Reader
from tests.kinds import ROLE_BINDINGS
from tests.waiting import eventually

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="the playground was tried on Linux alone"),
]
NAMESPACE, OBJECT = "module-tea-room", "default-tea-room"


async def test_each_command_of_the_module_teams_page_does_what_it_says(reader: Reader, clusters: Playground) -> None:
    skr = clusters.demo

    async def project_is_complete() -> None:
        files = {each.name for each in (reader.folder / "tea-room/module").iterdir()}
        assert files >= {"crd.yaml", "module-template.yaml", "module-release-meta.yaml", "module-policy.yaml"}

    async def control_plane_is_prepared() -> None:
        bindings = (await clusters.kcp.list(ROLE_BINDINGS, NAMESPACE)).items
        assert [each["metadata"]["name"] for each in bindings] == [names.LIFECYCLE_MANAGER]

    async def nothing_to_do_yet() -> None:
        assert not (await clusters.kcp.list(MODULE_CONFIGS, NAMESPACE)).items

    async def is_ready() -> bool:
        return (await modules_of(skr))["tea-room"] == "Ready"

    async def object_is_there() -> None:
        await eventually(is_ready)
        assert (await config_maps_of(skr))[OBJECT] == {"greeting": "hello"}

    async def mistake_is_corrected() -> None:
        assert (await config_maps_of(skr))[OBJECT] == {"greeting": "hello", "tea": "green"}

    async def new_function_is_in_force() -> None:
        assert (await config_maps_of(skr))[OBJECT] == {"greeting": "HELLO", "tea": "GREEN"}

    async def module_is_gone() -> None:
        assert await modules_of(skr) == {"greeting": "Ready"}
        assert OBJECT not in await config_maps_of(skr)

    judges = {
        "1": project_is_complete,
        "2": control_plane_is_prepared,
        "3": nothing_to_do_yet,
        "4": object_is_there,
        "5": mistake_is_corrected,
        "6": new_function_is_in_force,
        "7": module_is_gone,
    }
    await reader.follow(Path("docs/start/module-team.md"), judges)
