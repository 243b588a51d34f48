"""A user cluster has the Kyma CRD of the control plane; a change of it changes no Kyma."""

import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kube_runtime import Client, JsonObject
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS, labelled_crd
from lifecycle_manager.kyma.crd import digest_of
from lifecycle_manager_api import Kyma, crds, names
from tests.waiting import eventually

COLUMN = {"name": "Region", "type": "string", "jsonPath": ".metadata.labels.region"}
FIELD = {"type": "string", "description": "Purpose of the cluster.", "maxLength": 63}
OF_A_TOOL = {"example.com/managed-by": "a-tool"}


async def test_recorded_digest_is_that_of_the_applied_crd_without_server_defaults(
    walkthrough: Walkthrough,
) -> None:
    """So clusters that have this CRD from an earlier version of Lifecycle Manager are not written to."""

    async def recorded() -> str | None:
        return (await _outer(walkthrough.environment)).status.records.kyma_crd

    assert await eventually(recorded) == digest_of(labelled_crd(crds.crd_for(Kyma)))


async def test_changes_of_the_crd_in_the_control_plane_are_applied_to_the_cluster(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    before, outer, inner = await _crd(environment.skr), await _outer(environment), await _inner(environment)
    async with _changed_crd(environment):
        changed = await eventually(lambda: _changed_since(before, environment))
        current = changed["spec"]["versions"][0]
        assert COLUMN in current["additionalPrinterColumns"]
        assert _fields_of(current)["purpose"] == FIELD
        assert OF_A_TOOL.keys() & changed["metadata"].get("labels", {}).keys() == set()
        await eventually(lambda: _recorded_other(outer, environment))
    restored = await eventually(lambda: _changed_since(changed, environment))
    assert restored["spec"] == before["spec"]
    await eventually(lambda: _recorded_the_same(outer, environment))
    assert (await _outer(environment)).metadata.generation == outer.metadata.generation
    assert (await _inner(environment)).metadata.generation == inner.metadata.generation
    await walkthrough.change_volume("170Gi")


@asynccontextmanager
async def _changed_crd(environment: Environment) -> AsyncGenerator[None, None]:
    """Add a field, a column and a label to the CRD in the control plane until the block ends."""
    versions: list[dict[str, Any]] = (await _crd(environment.kcp))["spec"]["versions"]
    more = copy.deepcopy(versions)
    more[0]["additionalPrinterColumns"].append(COLUMN)
    _fields_of(more[0])["purpose"] = FIELD
    await _patch(environment.kcp, {"metadata": {"labels": OF_A_TOOL}, "spec": {"versions": more}})
    try:
        yield
    finally:
        await _patch(
            environment.kcp, {"metadata": {"labels": dict.fromkeys(OF_A_TOOL)}, "spec": {"versions": versions}}
        )


def _fields_of(version: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields


async def _crd(client: Client) -> JsonObject:
    return await client.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)


async def _patch(client: Client, patch: dict[str, Any]) -> None:
    await client.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, patch, field_manager="test")


async def _changed_since(before: JsonObject, environment: Environment) -> JsonObject | None:
    crd = await _crd(environment.skr)
    return crd if crd["metadata"]["generation"] != before["metadata"]["generation"] else None


async def _outer(environment: Environment) -> Kyma:
    return await environment.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)


async def _inner(environment: Environment) -> Kyma:
    return await environment.skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)


async def _recorded_the_same(before: Kyma, environment: Environment) -> bool:
    return (await _outer(environment)).status.records.kyma_crd == before.status.records.kyma_crd


async def _recorded_other(before: Kyma, environment: Environment) -> bool:
    return not await _recorded_the_same(before, environment)
