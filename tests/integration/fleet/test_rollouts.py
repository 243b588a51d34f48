"""Rollouts against a real API server: `klm rollout` by somebody with the ClusterRole `klm-operator`, and the brake."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, Manager
from kyma_fleet.rollout_notes import STEERED
from lifecycle_manager import module_rollouts
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager_api import ModuleRollout, names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma
from tests.kinds import EVENTS
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE
NAME = "keda-regular-2"
SPEC: dict[str, Any] = {
    "moduleName": "keda",
    "channel": "regular",
    "version": "2.0.0",
    "formerVersion": "1.0.0",
    "revision": 2,
    "strategy": {"waves": [{"name": "canary", "kymaSelector": {}, "approval": "required"}]},
}
STATUS: dict[str, Any] = {
    "phase": "Halted",
    "wave": "canary",
    "message": "2 of 5 clusters of wave canary failed",
    "clusters": 5,
    "updated": 3,
    "failed": 2,
    "failuresAtHalt": 2,
    "waves": [{"name": "canary", "clusters": 5, "healthy": 3, "failed": 2, "startedAt": "2026-11-23T10:00:00Z"}],
    "failedClusters": [{"kyma": "demo", "wave": "canary", "reason": "ManagerFailed", "message": "no image"}],
}


@pytest_asyncio.fixture
async def rollout(control_plane: Client) -> AsyncIterator[Client]:
    document = {"metadata": {"name": NAME, "labels": {names.MODULE_NAME: "keda"}}, "spec": SPEC}
    await control_plane.create(MODULE_ROLLOUTS, document, KCP, field_manager="test")
    await control_plane.merge_patch(MODULE_ROLLOUTS, NAME, {"status": STATUS}, KCP, subresource="status")
    yield control_plane
    for each in (await control_plane.list(MODULE_ROLLOUTS, KCP)).items:
        await control_plane.delete(MODULE_ROLLOUTS, each.metadata.name, KCP)


async def found(client: Client, name: str = NAME) -> ModuleRollout:
    return await client.get(MODULE_ROLLOUTS, name, KCP)


async def test_status_names_the_clusters_that_failed(rollout: Client, viewer: Klm) -> None:
    listed = await viewer("rollout", "list")
    assert "keda-regular-2  2.0.0    Halted  canary  3/5" in listed.text
    assert (await viewer("rollout", "status", "kedda")).errors.endswith("; did you mean keda?\n")
    shown = await viewer("rollout", "status", "keda")
    assert shown.code == 1
    assert "demo" in shown.text
    assert "no image" in shown.text
    assert "Halted: 2 of 5 clusters of wave canary failed." in shown.text
    assert NAME in (await viewer("get", "rollouts")).text


async def test_each_verb_changes_its_field(rollout: Client, operator: Klm) -> None:
    assert (await operator("rollout", "approve", "keda")).code == 0
    (approval,) = (await found(rollout)).spec.approvals
    assert (approval.wave, approval.by) == ("canary", "system:serviceaccount:kcp-system:klm-operator")
    assert "already" in (await operator("rollout", "approve", "keda")).text

    assert (await operator("rollout", "pause", NAME)).code == 0
    assert (await found(rollout)).spec.paused
    assert (await operator("rollout", "halt", "keda", "--channel", "regular")).code == 0
    assert (await found(rollout)).spec.halted
    assert (await operator("rollout", "resume", "keda")).code == 0
    spec = (await found(rollout)).spec
    assert (spec.paused, spec.halted, spec.accepted_failures) == (False, False, 2)


async def test_reason_is_left_for_those_who_come_later(rollout: Client, operator: Klm, viewer: Klm) -> None:
    assert (await operator("rollout", "pause", "keda", "--reason", "incident 4711")).code == 0
    note = (await found(rollout)).metadata.annotations[STEERED]
    assert note.startswith("paused by system:serviceaccount:kcp-system:klm-operator at 20")
    assert note.endswith(" UTC: incident 4711")
    assert note in (await viewer("rollout", "status", "keda")).text
    events = (await rollout.list(EVENTS, KCP)).items
    assert ("RolloutPaused", NAME, note) in {
        (each["reason"], each["regarding"]["name"], each["note"]) for each in events
    }
    assert (await operator("rollout", "undo", "keda", "--yes", "--reason", "it was worse")).code == 0
    assert (await found(rollout, "keda-regular-3")).metadata.annotations[STEERED].endswith(": it was worse")


@pytest.mark.parametrize("verb", ["pause", "halt"])
async def test_what_would_not_stop_anything_is_not_written(rollout: Client, operator: Klm, verb: str) -> None:
    await rollout.merge_patch(MODULE_ROLLOUTS, NAME, {"status": {"phase": "Completed"}}, KCP, subresource="status")
    stopped = await operator("rollout", verb, "keda")
    assert (stopped.code, "nothing to do: rollout keda-regular-2 is completed" in stopped.text) == (0, True)
    spec = (await found(rollout)).spec
    assert not spec.paused
    assert not spec.halted


async def test_watch_ends_where_somebody_has_to_decide(rollout: Client, viewer: Klm) -> None:
    shown = await viewer("rollout", "status", "keda", "--watch")
    assert (shown.code, "Halted" in shown.text) == (1, True)


async def test_undo_creates_the_rollout_of_the_version_before(rollout: Client, operator: Klm) -> None:
    refused = await operator("rollout", "undo", "keda")
    assert (refused.code, "--yes" in refused.errors) == (2, True)
    assert (await operator("rollout", "undo", "keda", "--now", "--yes")).code == 0
    back = (await found(rollout, "keda-regular-3")).spec
    assert (back.version, back.former_version, back.undoes, back.at_once) == ("1.0.0", "2.0.0", NAME, True)


async def test_second_undo_changes_nothing_but_the_pace(rollout: Client, operator: Klm) -> None:
    assert "its ModuleTemplate does not exist" in (await operator("rollout", "undo", "keda", "--yes")).text
    for name in ("keda", NAME, "keda-regular-3"):
        again = await operator("rollout", "undo", name, "--yes")
        assert (again.code, "nothing to do: rollout keda-regular-3 takes keda back" in again.text) == (0, True)
    assert not (await found(rollout, "keda-regular-3")).spec.at_once
    assert (await operator("rollout", "undo", "keda", "--now", "--yes")).code == 0
    assert "nothing to do" in (await operator("rollout", "undo", "keda", "--now", "--yes")).text
    assert [(each.spec.version, each.spec.at_once) for each in (await rollout.list(MODULE_ROLLOUTS, KCP)).items] == [
        ("2.0.0", False),
        ("1.0.0", True),
    ]
    halted = await operator("rollout", "halt", NAME)
    assert (halted.code, "superseded by keda-regular-3" in halted.errors) == (2, True)


async def test_what_does_not_exist_is_named_with_what_does(rollout: Client, operator: Klm) -> None:
    unknown = await operator("rollout", "pause", "istio")
    assert (unknown.code, NAME in unknown.errors) == (2, True)
    wave = await operator("rollout", "approve", "keda", "--wave", "europe")
    assert (wave.code, "canary, remaining" in wave.errors) == (2, True)


async def test_viewer_may_not_steer(rollout: Client, viewer: Klm) -> None:
    assert (await viewer("rollout", "pause", "keda")).code == 2
    assert not (await found(rollout)).spec.paused


async def test_large_change_without_a_strategy_is_released_to_some_clusters(control_plane: Client) -> None:
    kymas = [f"braked-{number}" for number in range(4)]
    for name in kymas:
        await put_kyma(control_plane, name, {})
        manifest = builders.manifest("braked", "1.0.0", kyma=name)
        await control_plane.create(MANIFESTS, builders.as_written(manifest), KCP, field_manager="test")
    manager = Manager(control_plane, namespace=KCP)
    settings = RolloutSettings(max_changed="3")
    offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
    module_rollouts.setup(manager, offers, settings)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(stopping))
        document = builders.as_written(builders.release("braked", regular="2.0.0"))
        await control_plane.create(MODULE_RELEASE_METAS, document, KCP, field_manager="test")

        async def released() -> list[str]:
            manifests = [await control_plane.get(MANIFESTS, f"{name}-braked", KCP) for name in kymas]
            return [each.status.release.version for each in manifests if each.status.release is not None]

        await eventually(released)
        stopping.set()
    assert await released() == ["2.0.0"], "10 % of four clusters is one"
    begun = await found(control_plane, "braked-regular-1")
    assert (begun.spec.former_version, [each.name for each in begun.spec.strategy.waves]) == ("1.0.0", ["trial"])
