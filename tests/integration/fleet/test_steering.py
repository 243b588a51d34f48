"""`klm pause`, `resume` and `reconcile` against a real API server, by somebody with the ClusterRole `klm-operator`."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from kube_runtime import Client, Resource
from kyma_fleet.explanation.marks import PAUSED_BY, PAUSED_REASON
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager_api import ObjectMeta, names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma, written
from tests.kinds import EVENTS

KCP = names.KCP_NAMESPACE
SKIP = names.SKIP_RECONCILIATION
OPERATOR = "system:serviceaccount:kcp-system:klm-operator"


@pytest_asyncio.fixture
async def steered(control_plane: Client) -> AsyncIterator[Client]:
    await put_kyma(control_plane, "steered", {"state": "Ready", "observedGeneration": 1})
    manifest = builders.as_written(builders.manifest("keda", kyma="steered"))
    await control_plane.apply(MANIFESTS, "steered-keda", manifest, KCP, field_manager="test")
    yield control_plane
    await control_plane.delete(KYMAS, "steered", KCP)
    await control_plane.delete(MANIFESTS, "steered-keda", KCP)


async def metadata(client: Client, resource: Resource[Any], name: str) -> ObjectMeta:
    found: ObjectMeta = (await client.get(resource, name, KCP)).metadata
    return found


async def test_pause_and_resume_leave_who_when_and_why(steered: Client, operator: Klm) -> None:
    paused = await operator("pause", "steered", "--reason", "incident 42")
    assert (paused.code, paused.text) == (0, f"1 Kyma and 1 Manifest: paused by {OPERATOR}\n")
    for resource, name in ((KYMAS, "steered"), (MANIFESTS, "steered-keda")):
        held = await metadata(steered, resource, name)
        assert held.labels[SKIP] == "true"
        assert (held.annotations[PAUSED_BY], held.annotations[PAUSED_REASON]) == (OPERATOR, "incident 42")
    listed = await operator("get", "kymas", "steered", "--paused")
    assert "incident 42" in listed.text
    refused = await operator("reconcile", "steered")
    assert (refused.code, "klm resume steered" in refused.errors) == (2, True)
    again = await operator("pause", "steered", "--reason", "again")
    assert again.text == "nothing to do: 1 Kyma and 1 Manifest already paused\n"
    changed = ["kyma.operator.kyma-project.io/steered", "manifest.operator.kyma-project.io/steered-keda"]
    assert (await operator("resume", "steered", "-o", "name")).lines == changed
    document = json.loads((await operator("pause", "steered", "--reason", "incident 43", "-o", "json")).text)
    assert document["message"] == f"1 Kyma and 1 Manifest: paused by {OPERATOR}"
    assert [each["object"] for each in document["objects"]] == changed

    resumed = await operator("resume", "steered")
    assert resumed.code == 0
    for resource, name in ((KYMAS, "steered"), (MANIFESTS, "steered-keda")):
        held = await metadata(steered, resource, name)
        assert SKIP not in held.labels
        assert PAUSED_BY not in held.annotations
    events = (await steered.list(EVENTS, KCP)).items
    notes = {each["note"] for each in events if each["regarding"]["name"] == "steered"}
    assert notes == {*(f"paused by {OPERATOR}: incident {number}" for number in (42, 43)), f"resumed by {OPERATOR}"}
    result = await operator("events", "steered")
    assert "incident 42" in result.text


async def test_one_module_and_more_than_one_cluster(steered: Client, operator: Klm) -> None:
    of_module = await operator("pause", "steered", "--module", "keda", "--reason", "x")
    assert of_module.text == f"Manifest steered-keda: paused by {OPERATOR}\n"
    assert SKIP not in (await metadata(steered, KYMAS, "steered")).labels
    asked = await operator("resume", "--module", "keda")
    assert (asked.code, "--yes" in asked.errors) == (2, True)
    assert (await operator("resume", "--module", "keda", "--yes")).code == 0
    assert SKIP not in (await metadata(steered, MANIFESTS, "steered-keda")).labels
    unknown = await operator("pause", "steered", "--module", "other", "--reason", "x")
    assert "Kyma steered has no module other, but: none" in unknown.errors


async def test_reconcile_is_requested_by_an_annotation(steered: Client, operator: Klm) -> None:
    assert (await operator("reconcile", "steered", "keda", "--reason", "why")).code == 0
    assert names.RECONCILE_AT in (await metadata(steered, MANIFESTS, "steered-keda")).annotations


async def test_close_name_of_a_module_is_suggested_by_each_command(control_plane: Client, operator: Klm) -> None:
    modules = [{"name": "keda", "state": "Ready", "version": "1.0.0"}]
    await put_kyma(control_plane, "has-keda", {"state": "Ready", "observedGeneration": 1, "modules": modules})
    async with written(control_plane, builders.release("keda", regular="1.0.0")):
        for command in (
            ("pause", "--reason", "x", "--module", "kedda"),
            ("resume", "--module", "kedda"),
            ("reconcile", "has-keda", "kedda"),
            ("preview", "kedda", "1.1.0"),
            ("diff", "has-keda", "kedda"),
            ("explain", "has-keda", "kedda"),
            ("trace", "has-keda", "kedda"),
        ):
            misspelt = await operator(*command)
            assert (misspelt.code, misspelt.errors.endswith("; did you mean keda?\n")) == (2, True), misspelt.errors
        quiet = await operator("trace", "has-keda", "keda")
        assert (quiet.code, "nothing is recorded of keda" in quiet.errors) == (0, True)
        without = await operator("resume", "--module", "keda")
        assert "module keda has no Manifest in any cluster; its objects follow" in without.errors
    await control_plane.delete(KYMAS, "has-keda", KCP)


async def test_continue_says_where_nothing_is_held(steered: Client, operator: Klm) -> None:
    continued = await operator("continue", "steered")
    assert (continued.code, "no Kyma and no Manifest reports one that is held" in continued.text) == (0, True)
    held = builders.condition("Ready", "DeletionHeld", "waits", "False", at="2026-11-22T12:00:00Z")
    await put_kyma(steered, "steered", {"state": "Warning", "observedGeneration": 1, "conditions": [held]})
    assert "held" not in (await operator("continue", "steered")).text


async def test_viewer_sees_which_role_is_needed(steered: Client, viewer: Klm) -> None:
    refused = await viewer("pause", "steered", "--reason", "x")
    assert refused.code == 1
    assert "not changed: kyma.operator.kyma-project.io/steered: kymas.operator.kyma-project.io" in refused.text
    assert "klm-operator" in refused.text
    assert SKIP not in (await metadata(steered, KYMAS, "steered")).labels
