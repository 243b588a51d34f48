"""The former version's Watcher and Module Manager work with this Lifecycle Manager; see `docs/compatibility.md`."""

import pytest

from tests.integration.compatibility.conftest import Fleet

WITHIN = 60.0


@pytest.mark.parametrize(("name", "sizes"), [("skr-watcher", (101, 102)), ("module-manager", (103, 104))])
async def test_change_is_in_force_with_former(fleet: Fleet, name: str, sizes: tuple[int, int]) -> None:
    await fleet.run_former(name)
    try:
        await fleet.walkthrough.change_volume(f"{sizes[0]}Gi", within=WITHIN)
    finally:
        await fleet.run_present(name)
    await fleet.walkthrough.change_volume(f"{sizes[1]}Gi", within=WITHIN)
