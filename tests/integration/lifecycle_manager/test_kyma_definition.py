"""A user cluster has the definition of Kymas that the control plane has, and no Kyma notices that it changes."""

import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kube_runtime import Client, JsonObject
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from lifecycle_manager.kyma.crd import digest_of
from lifecycle_manager.kyma_changes import CRD_HASH
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS
from lifecycle_manager_api import Kyma, crds, names
from tests.waiting import eventually

COLUMN = {"name": "Region", "type": "string", "jsonPath": ".metadata.labels.region"}
FIELD = {"type": "string", "description": "What this cluster is for.", "maxLength": 63}
OF_A_TOOL = {"example.com/managed-by": "a-tool"}


async def test_definition_is_recorded_as_it_was_applied_to_the_control_plane_whatever_its_server_added(
    story: Story,
) -> None:
    """So a fleet to which an earlier version brought this very definition is in order, and nothing is written to it."""

    async def recorded() -> str | None:
        return (await _outer(story.stage)).metadata.annotations.get(CRD_HASH)

    assert await eventually(recorded) == digest_of(crds.crd_for(Kyma))


async def test_definition_that_changes_in_the_control_plane_changes_in_the_cluster_and_back(story: Story) -> None:
    stage = story.stage
    before, outer, inner = await _definition(stage.skr), await _outer(stage), await _inner(stage)
    async with _redefined(stage):
        changed = await eventually(lambda: _changed_since(before, stage))
        current = changed["spec"]["versions"][0]
        assert COLUMN in current["additionalPrinterColumns"]
        assert _fields_of(current)["purpose"] == FIELD
        assert OF_A_TOOL.keys() & changed["metadata"].get("labels", {}).keys() == set()
        await eventually(lambda: _recorded_other(outer, stage))
    restored = await eventually(lambda: _changed_since(changed, stage))
    assert restored["spec"] == before["spec"]
    await eventually(lambda: _recorded_the_same(outer, stage))
    assert (await _outer(stage)).metadata.generation == outer.metadata.generation
    assert (await _inner(stage)).metadata.generation == inner.metadata.generation
    await story.change_volume("170Gi")


@asynccontextmanager
async def _redefined(stage: Stage) -> AsyncGenerator[None, None]:
    """Have one more field and column in the control plane's definition for as long, and a tool's label on it."""
    versions: list[dict[str, Any]] = (await _definition(stage.kcp))["spec"]["versions"]
    more = copy.deepcopy(versions)
    more[0]["additionalPrinterColumns"].append(COLUMN)
    _fields_of(more[0])["purpose"] = FIELD
    await _patch(stage.kcp, {"metadata": {"labels": OF_A_TOOL}, "spec": {"versions": more}})
    try:
        yield
    finally:
        await _patch(stage.kcp, {"metadata": {"labels": dict.fromkeys(OF_A_TOOL)}, "spec": {"versions": versions}})


def _fields_of(version: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields


async def _definition(client: Client) -> JsonObject:
    return await client.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)


async def _patch(client: Client, patch: dict[str, Any]) -> None:
    await client.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, patch, field_manager="test")


async def _changed_since(before: JsonObject, stage: Stage) -> JsonObject | None:
    definition = await _definition(stage.skr)
    return definition if definition["metadata"]["generation"] != before["metadata"]["generation"] else None


async def _outer(stage: Stage) -> Kyma:
    return await stage.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)


async def _inner(stage: Stage) -> Kyma:
    return await stage.skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)


async def _recorded_the_same(before: Kyma, stage: Stage) -> bool:
    return (await _outer(stage)).metadata.annotations[CRD_HASH] == before.metadata.annotations[CRD_HASH]


async def _recorded_other(before: Kyma, stage: Stage) -> bool:
    return not await _recorded_the_same(before, stage)
