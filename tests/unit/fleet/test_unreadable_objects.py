"""One object that does not fit its type is left out and named; commands go on with the rest of the fleet."""

import io
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio

from kube_runtime import ObjectUnreadable, Resource
from kyma_fleet import rollouts, status, steering
from kyma_fleet.explanation.command import explain
from kyma_fleet.explanation.reading import Rules
from kyma_fleet.listing.command import list_kind
from kyma_fleet.listing.kinds import kind_named
from kyma_fleet.listing.selection import Selection
from kyma_fleet.preview import preview
from kyma_fleet.release_waves import Release
from kyma_fleet.screen import Screen
from kyma_fleet.steering import Subjects
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    WATCHERS,
)
from tests import builders
from tests.world import KCP, World, open_world


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        await opened.register()
        yield opened


@pytest.fixture
def screen() -> Screen:
    return Screen(stream=io.StringIO())


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "who", AsyncMock(return_value="ada"))


def leave_unreadable(world: World, resource: Resource[Any], name: str, **spec: Any) -> None:
    """Store what the CRD would refuse, as it may be left of a former CRD."""
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    metadata = {"name": name, "namespace": KCP, "uid": f"uid-of-{name}"}
    world.cluster("kcp").restore([{**document, "metadata": metadata}])


LEFT_OUT = "left out: kcp-system/broken is not what its kind promises"


async def test_fleet_is_paused_without_objects_that_can_not_be_read(
    world: World, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_unreadable(world, KYMAS, "broken", channel=7)
    leave_unreadable(world, MANIFESTS, "broken", version=7)
    steered = steering.steer(world.kcp, screen, "pause", Subjects(everything=True), reason="", confirm=lambda _: True)
    assert await steered == 1
    assert LEFT_OUT in capsys.readouterr().err
    assert (await world.kcp.get(KYMAS, "demo", KCP)).metadata.is_paused


async def test_rollouts_are_listed_without_one_that_can_not_be_read(
    world: World, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_unreadable(world, MODULE_ROLLOUTS, "broken", version=7)
    assert await rollouts.list_rollouts(world.kcp, screen, everything=True) == 1
    kind = kind_named("rollouts")
    assert kind is not None
    assert await list_kind(world.kcp, screen, kind, Selection(), "", watch=False) == 0
    with pytest.raises(ObjectUnreadable):
        await list_kind(world.kcp, screen, kind, Selection(name="broken"), "", watch=False)
    assert capsys.readouterr().err.count(LEFT_OUT) == 2


async def test_preview_is_of_the_kymas_that_can_be_read(
    world: World, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.offer(builders.template("keda", "2.0.0"), builders.release("keda", regular="2.0.0"))
    leave_unreadable(world, KYMAS, "broken", channel=7)
    leave_unreadable(world, MODULE_TEMPLATES, "broken", version=7)
    release = Release("keda", "2.0.0", "regular")
    assert await preview(world.kcp, screen, release, Rules(), sample=0, namespace=KCP) == 1
    assert capsys.readouterr().err.count(LEFT_OUT) == 2
    assert "1 Kyma not affected" in screen.stream.getvalue()  # type: ignore[attr-defined]


async def test_deletions_continue_for_no_manifest_alone(world: World, screen: Screen) -> None:
    await world.kcp.delete(KYMAS, "demo", KCP)
    await world.create(builders.manifest("keda"))
    steered = steering.steer(world.kcp, screen, "continue", Subjects(everything=True), reason="", confirm=bool)
    assert await steered == 0
    assert screen.stream.getvalue() == "nothing to do: there is no Kyma\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("resource", [MODULE_TEMPLATES, DATED_RELEASE_METAS, MODULE_ROLLOUTS])
async def test_kyma_is_explained_beside_one_of_the_catalog(
    world: World, screen: Screen, capsys: pytest.CaptureFixture[str], resource: Resource[Any]
) -> None:
    leave_unreadable(world, resource, "broken", moduleName=7)
    assert await explain(world.kcp, screen, "demo", "", Rules()) in {0, 1}
    assert LEFT_OUT in capsys.readouterr().err


async def test_rollout_beside_one_that_can_not_be_read_is_not_halted(
    world: World, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    waves = [{"name": "all", "kymaSelector": {}}]
    spec = {"moduleName": "keda", "channel": "regular", "version": "2.0.0", "strategy": {"waves": waves}}
    await world.kcp.create(
        MODULE_ROLLOUTS, {"metadata": {"name": "keda-regular-1"}, "spec": spec}, KCP, field_manager="test"
    )
    leave_unreadable(world, MODULE_ROLLOUTS, "broken", version=7)
    assert await rollouts.status(world.kcp, screen, "keda", "", watch=False) == 0
    assert LEFT_OUT in capsys.readouterr().err


@pytest.mark.parametrize("resource", [KYMAS, DATED_RELEASE_METAS, MODULE_ROLLOUTS, WATCHERS])
async def test_fleet_is_not_in_order_where_something_can_not_be_read(
    world: World,
    screen: Screen,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    resource: Resource[Any],
) -> None:
    monkeypatch.setattr(status.FleetReading, "wrong", lambda *_: ())
    assert await status.status(world.kcp, screen, KCP, watch=False) == 0
    leave_unreadable(world, resource, "broken", channel=7, moduleName=7, labelsToWatch=7)
    assert await status.status(world.kcp, screen, KCP, watch=False) == 1
    assert capsys.readouterr().err.count(LEFT_OUT) == 1
