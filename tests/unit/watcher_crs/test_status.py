"""A Watcher CR is Ready once the webhook of every cluster is made from the present Watcher CRs."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager.contract.watchers import valid_watchers, watchers_digest
from lifecycle_manager.watcher_crs import setup as setup_status
from lifecycle_manager.watcher_crs.status import status_of
from lifecycle_manager_api import Kyma, Watcher
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, World

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def watcher(name: str = "one", *, generation: int = 1, manager: str = "") -> Watcher:
    spec = {
        "field": "spec",
        "manager": manager,
        "gateway": {"selector": {}},
        "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
        "serviceInfo": {"name": "a", "namespace": "b", "port": 1},
    }
    metadata = {"name": name, "namespace": "kcp-system", "uid": name, "generation": generation}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Watcher)


def other(one: Watcher, **spec: Any) -> Watcher:
    document: dict[str, Any] = msgspec.to_builtins(one)
    return msgspec.convert(document | {"spec": document["spec"] | spec}, Watcher)


def cluster(name: str, digest: str, *, reason: str = "WatcherReady", status: str = "True") -> Kyma:
    condition = {"type": "SKRWebhook", "status": status, "reason": reason, "message": ""}
    return builders.kyma(name, status={"conditions": [condition]}, records={"watcher": f"documents.{digest}"})


def test_change_is_processing_until_the_last_cluster_has_it() -> None:
    old, new = watcher(generation=1), watcher(generation=2)
    behind, done = watchers_digest([old]), watchers_digest([new])
    status = status_of(new, [new], [cluster("a", done), cluster("b", behind)], NOW)
    assert (status.state, status.conditions[0].status, status.observed_generation) == ("Processing", "False", 2)
    assert "1 of 2" in status.conditions[0].message
    status = status_of(new, [new], [cluster("a", done), cluster("b", done)], NOW)
    assert (status.state, status.conditions[0].status) == ("Ready", "True")


def test_cluster_without_a_webhook_is_not_waited_for() -> None:
    one = watcher()
    starting = cluster("new", "", reason="WatcherStarting", status="False")
    assert status_of(one, [one], [starting], NOW).state == "Ready"
    broken = cluster("broken", "", reason="EventPathBroken", status="False")
    assert status_of(one, [one], [broken], NOW).state == "Processing"


async def test_status_is_written_and_follows_the_watcher_crs(world: World) -> None:
    setup_status(world.manager)
    spec = msgspec.to_builtins(watcher("one").spec)
    await world.kcp.create(WATCHERS, {"metadata": {"name": "one"}, "spec": spec}, KCP, field_manager="test")
    async with world.running():

        async def state() -> str:
            return str((await world.kcp.get(WATCHERS, "one", KCP)).status.state)

        async def becomes(wanted: str) -> bool:
            return await state() == wanted

        await eventually(lambda: becomes("Ready"))
        await world.kcp.merge_patch(WATCHERS, "one", {"spec": {"manager": "Not/A/Manager"}}, KCP)
        await eventually(lambda: becomes("Error"))


LONG = "l" * 64


@pytest.mark.parametrize(
    ("invalid", "field"),
    [
        pytest.param(watcher(manager="Painter"), "manager", id="capital letters in the path"),
        pytest.param(watcher(manager="painter/of-walls"), "manager", id="two segments of a path"),
        pytest.param(watcher(manager=".."), "manager", id="a path that climbs"),
        pytest.param(other(watcher(), labelsToWatch={"a b": "c"}), "labelsToWatch", id="a label's name"),
        pytest.param(other(watcher(), labelsToWatch={"a": LONG}), "labelsToWatch", id="a label's value"),
        pytest.param(
            other(watcher(), resourceToWatch={"group": "", "version": "", "resource": "a"}), "version", id="no version"
        ),
        pytest.param(watcher("canary"), "canary", id="a reserved webhook name"),
        pytest.param(watcher("n" * 240), "longer", id="a long name"),
    ],
)
def test_invalid_watcher_does_not_hold_up_the_others(invalid: Watcher, field: str) -> None:
    """An API server accepts a webhook configuration whole or not at all."""
    good = watcher("good")
    assert valid_watchers([invalid, good]) == (good,)
    status = status_of(invalid, [invalid, good], [], NOW)
    assert (status.state, status.conditions[0].status, status.conditions[0].reason) == ("Error", "False", "Invalid")
    assert field in status.conditions[0].message
    digest = watchers_digest([good])
    assert status_of(good, [invalid, good], [cluster("a", digest)], NOW).state == "Ready"
