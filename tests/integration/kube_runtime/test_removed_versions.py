"""Applies to an object that somebody has written in a version which its definition no longer has."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_runtime import Applier, Client, JsonObject, KindUnknown, Resource
from kube_runtime import parse_objects as parsed
from tests.integration.kube_runtime.things import as_text
from tests.kinds import CRDS, OPEN, crd_of
from tests.waiting import eventually

Document = dict[str, Any]
GROUP = "migrants.example.com"
SCHEMA = {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}
FORMER, PRESENT = (Resource.dynamic(GROUP, version, "Migrant", "migrants", True) for version in ("v1alpha1", "v1"))


def definition(*versions: str) -> Document:
    """Return the definition in versions of which the last one is stored."""
    return crd_of(GROUP, "Migrant", *versions, stored=versions[-1], schema=SCHEMA, has_status=True)


def migrant(namespace: str, version: str, **spec: int) -> Document:
    metadata = {"name": "one", "namespace": namespace}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Migrant", "metadata": metadata, "spec": spec}


@pytest.fixture
async def applier(client: Client, namespace: str) -> AsyncIterator[Applier]:
    """An Applier that has applied an object, of which its operator has written the status, in the former version."""
    applier = Applier(client, field_manager="applier")
    first = await applier.apply(parsed(as_text(definition("v1alpha1"), migrant(namespace, "v1alpha1", a=1, b=1))))
    first.raise_first_failure()
    for patch, part in (({"status": {"x": 1}}, "status"), ({"metadata": {"labels": {"its": "own"}}}, None)):
        await client.merge_patch(FORMER, "one", patch, namespace, subresource=part, field_manager="operator")
    yield applier

    async def deleted() -> bool:
        return not (await applier.delete(first.inventory)).inventory

    await eventually(deleted, what="the definition is gone")


async def drop_former(client: Client, applier: Applier, namespace: str) -> None:
    """Store the object in the present version, and drop the former one, as a migration of versions does."""

    async def served(resource: Resource[Document]) -> bool:
        try:
            await client.get(resource, "one", namespace)
        except KindUnknown:
            return False
        return True

    async def dropped() -> bool:
        return not await served(FORMER)

    await applier.apply(parsed(as_text(definition("v1alpha1", "v1"))))
    await eventually(lambda: served(PRESENT), what="the present version is served")
    await client.merge_patch(PRESENT, "one", {"metadata": {"labels": {"x": "y"}}}, namespace, field_manager="operator")
    stored = {"status": {"storedVersions": ["v1"]}}
    await client.merge_patch(CRDS, f"migrants.{GROUP}", stored, subresource="status", field_manager="test")
    await applier.apply(parsed(as_text(definition("v1"))))
    await eventually(dropped, what="the former version is not served any more")


def owners(live: JsonObject) -> set[tuple[str, str]]:
    return {(each["manager"], each["apiVersion"]) for each in live["metadata"]["managedFields"]}


async def test_object_is_applied_after_a_version_in_which_it_was_written_is_gone(
    client: Client, namespace: str, applier: Applier
) -> None:
    await drop_former(client, applier, namespace)

    result = await applier.apply(parsed(as_text(migrant(namespace, "v1", a=2))))

    result.raise_first_failure()
    live = await client.get(PRESENT, "one", namespace)
    assert live["spec"] == {"a": 2}
    assert (live["status"], live["metadata"]["labels"]) == ({"x": 1}, {"its": "own", "x": "y"})
    assert owners(live) == {("applier", f"{GROUP}/v1"), ("operator", f"{GROUP}/v1")}


async def test_status_is_applied_after_a_version_in_which_it_was_written_is_gone(
    client: Client, namespace: str, applier: Applier
) -> None:
    await drop_former(client, applier, namespace)

    status = {"status": {"y": 2}}
    live = await client.apply(PRESENT, "one", status, namespace, subresource="status", field_manager="other")

    assert live["status"] == {"x": 1, "y": 2}
