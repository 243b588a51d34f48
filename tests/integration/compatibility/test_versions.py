"""The former and this version side by side, and the way from one to the other; see `docs/compatibility.md`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from kube_runtime import Resource
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SYNC_RESOURCES,
    WATCHERS,
)
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import as_document, names
from tests import builders
from tests.integration.charts.clusters import HelmClusters
from tests.integration.compatibility.conftest import PRESENT, Fleet, Version
from tests.integration.lifecycle_manager.test_watcher_resources import watcher
from tests.klm import run_klm, run_klm_process
from tests.users import at_work
from tests.waiting import eventually

USERS = 2
PAUSE = 0.1  # without it they take all of the machine from the releases that are installed meanwhile
WITHIN = 60.0
pytestmark = pytest.mark.timeout(900)  # releases are installed again and again: two minutes, and more on a busy machine
IN_KCP: tuple[Resource[Any], ...] = (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SYNC_RESOURCES,
    WATCHERS,
)
EDITED_BY_NOBODY: tuple[Resource[Any], ...] = (KYMAS, MANIFESTS, WATCHERS)
IN_SKR: tuple[Resource[Any], ...] = (INFRASTRUCTURES, CONFIG_MAPS)
READING = (
    ("get", "kymas"),
    ("get", "modules"),
    ("status",),
    ("explain", "demo"),
    ("events", "demo"),
    ("trace", "demo"),
)


async def test_no_change_is_lost_and_klm_reads_all_while_upgraded_and_rolled_back(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    former, world = fleet.former, fleet.world
    await _add_kinds_that_nobody_uses(world)
    async with at_work(world.walkthrough, within=WITHIN, users=USERS, pause=PAUSE) as users:
        before = await _uids(fleet)
        assert {kind for kind, _ in before} >= {each.kind for each in IN_KCP}
        specs = await _specs_that_nobody_edits(world)
        await apply_objects(world.kcp, PRESENT.crds)
        await world.offer_the_module()
        await fleet.install_lifecycle_manager(PRESENT, "--take-ownership")
        await fleet.install_module_manager(PRESENT)
        await fleet.wait_for(PRESENT, PRESENT, PRESENT)
        assert await _specs_that_nobody_edits(world) == specs
    await _assert_klm_reads_the_control_plane(former, world)
    async with at_work(world.walkthrough, within=WITHIN, users=USERS, pause=PAUSE) as users_after:
        for release in ("cloud-resources", "lifecycle-manager"):
            await world.kcp_helm.run("rollback", release, "1", "--namespace=kcp-system", "--force-conflicts", "--wait")
        await world.offer_the_module(former.sample)
        await fleet.wait_for(former, former, former)
    assert before.items() <= (await _uids(fleet)).items()
    await apply_objects(world.kcp, former.crds)
    await _assert_klm_reads_the_control_plane(PRESENT, world)
    record_property("changes in force", f"{users.summary}; {users_after.summary}")


@pytest.mark.parametrize("part", ["lifecycle_manager", "watcher", "module_manager"])
async def test_change_is_in_force_with_one_part_former(fleet: Fleet, part: str) -> None:
    parts = dict.fromkeys(("lifecycle_manager", "watcher", "module_manager"), PRESENT) | {part: fleet.former}
    await fleet.run(crds=PRESENT, **parts)
    async with at_work(fleet.world.walkthrough, within=WITHIN, users=USERS, pause=PAUSE):
        pass


async def _add_kinds_that_nobody_uses(world: HelmClusters) -> None:
    """Add an object of each kind of which the demo has none."""
    documents: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
        (WATCHERS, watcher("red")),
        (MANIFESTS, as_document(builders.manifest("nothing", kyma="nobody"))),
    )
    for resource, document in documents:
        name = document["metadata"]["name"]
        content = {**document, "metadata": {"name": name}}
        await world.kcp.apply(resource, name, content, names.KCP_NAMESPACE, field_manager="test")


async def _specs_that_nobody_edits(world: HelmClusters) -> dict[str, dict[str, bytes]]:
    return {
        resource.kind: {
            each.metadata.name: msgspec.json.encode(each.spec)
            for each in (await world.kcp.list(resource, names.KCP_NAMESPACE)).items
        }
        for resource in EDITED_BY_NOBODY
    }


async def _assert_klm_reads_the_control_plane(version: Version, world: HelmClusters) -> None:
    run = run_klm if version is PRESENT else partial(run_klm_process, program=version.klm)

    async def is_ready() -> bool:
        return (await world.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)).status.state == "Ready"

    await eventually(is_ready, what="the modules of the version that is installed")
    for command in READING:
        output = await run(world.walkthrough.environment.kcp_kubeconfig, *command)
        expected = "1 Ready" if command == ("status",) else "demo"
        assert (output.code, expected in output.text) == (0, True), (version.name, command, output)


async def _uids(fleet: Fleet) -> dict[tuple[str, str], str]:
    """Return the uids of all objects of a user's change, and of the Kyma and its modules."""
    kcp, skr = fleet.world.kcp, fleet.world.skr
    found = {
        (resource.kind, each.metadata.name): each.metadata.uid
        for resource in IN_KCP
        for each in (await kcp.list(resource, names.KCP_NAMESPACE)).items
    }
    return found | {
        (resource.kind, each["metadata"]["name"]): each["metadata"]["uid"]
        for resource in IN_SKR
        for each in (await skr.list(resource, names.SKR_NAMESPACE)).items
    }
