"""Applies to an object that has a value of a type which its definition has changed."""

from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest

from kube_runtime import Applier, Client, Conflict, Invalid, InventoryEntry, JsonObject, Resource
from kube_runtime import parse_objects as parsed
from tests.integration.kube_runtime.things import as_text
from tests.kinds import crd_of
from tests.waiting import eventually

Document = dict[str, Any]
Bring = Callable[..., Any]
GROUP = "outgrown.example.com"
KINDS: Resource[Document] = Resource.dynamic(GROUP, "v1", "Outgrown", "outgrowns", namespaced=True)
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}
MAP = {"type": "object", "properties": {"x": TEXT}}
MAPS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["n"],
    "items": {"type": "object", "required": ["n"], "properties": {"n": TEXT}},
}
CHANGES: dict[str, tuple[Document, Any, Document, Any]] = {
    "text to number": (TEXT, "1", NUMBER, 1),
    "text to map": (TEXT, "1", MAP, {"x": "1"}),
    "texts to maps": (TEXTS, ["1"], MAPS, [{"n": "1"}]),
    "map to texts": (MAP, {"x": "1"}, TEXTS, ["1"]),
}


def definition(value: Document) -> Document:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"value": value, "text": TEXT}}},
    }
    return crd_of(GROUP, "Outgrown", schema=schema)


def outgrown(namespace: str, **spec: Any) -> Document:
    metadata = {"name": "one", "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Outgrown", "metadata": metadata, "spec": spec}


@pytest.fixture
async def bring(client: Client) -> AsyncIterator[Bring]:
    """Applies documents with one Applier; what is there in the end is removed."""
    applier, inventory = Applier(client, field_manager="applier"), tuple[InventoryEntry, ...]()

    async def apply(*documents: Document) -> tuple[JsonObject | None, str | None]:
        nonlocal inventory
        result = await applier.apply(parsed(as_text(*documents)), inventory)
        inventory = result.inventory
        return result.outcomes[-1].live, result.outcomes[-1].error

    async def deleted() -> bool:
        return not (await applier.delete(inventory)).inventory

    yield apply
    await eventually(deleted, what="the definition is gone")


@pytest.mark.parametrize("what", CHANGES)
async def test_value_of_the_former_type_is_replaced(client: Client, namespace: str, bring: Bring, what: str) -> None:
    before, former, after, wanted = CHANGES[what]
    await bring(definition(before), outgrown(namespace, value=former))
    await client.merge_patch(KINDS, "one", {"spec": {"text": "of a user"}}, namespace, field_manager="user")

    async def applied() -> bool:
        live, _ = await bring(definition(after), outgrown(namespace, value=wanted))  # a server learns of it later
        return live is not None and bool(live["spec"] == {"value": wanted, "text": "of a user"})

    await eventually(applied, what="the value has the new type")
    live, error = await bring(definition(after), outgrown(namespace))
    assert (live and live["spec"], error) == ({"text": "of a user"}, None)


async def test_value_of_a_user_stays_and_is_named(client: Client, namespace: str, bring: Bring) -> None:
    await bring(definition(TEXT), outgrown(namespace, text="a"))
    await client.merge_patch(KINDS, "one", {"spec": {"value": "of a user"}}, namespace, field_manager="user")
    numbers = count()

    async def refused() -> bool:
        _, error = await bring(definition(NUMBER), outgrown(namespace, text=str(next(numbers))))
        return bool(error)

    await eventually(refused, what="the object does not fit its schema")
    _, error = await bring(definition(NUMBER), outgrown(namespace, text="z"))
    unfit = "spec.value: expected numeric (int or float), got string"
    assert error == f"the object in the cluster does not fit the schema of its kind: {unfit}"
    assert (await client.get(KINDS, "one", namespace))["spec"]["value"] == "of a user"


async def test_value_stays_where_the_document_is_meant_for_another_revision(
    client: Client, namespace: str, bring: Bring
) -> None:
    """So it is created only where it does not exist."""
    await bring(definition(TEXT), outgrown(namespace, value="1"))
    await Applier(client, field_manager="applier").apply(parsed(as_text(definition(NUMBER))))
    document = outgrown(namespace, value=1)
    document["metadata"]["resourceVersion"] = "1"

    async def unfit() -> bool:
        try:
            await client.apply(KINDS, "one", document, namespace, field_manager="other")
        except Invalid as refusal:
            return "typed live object" in refusal.message
        except Conflict:
            return False
        raise AssertionError("it was applied")

    await eventually(unfit, what="the object does not fit its schema")
    assert (await client.get(KINDS, "one", namespace))["spec"] == {"value": "1"}
