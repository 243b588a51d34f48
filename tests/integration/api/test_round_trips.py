"""Objects are stored and decoded without loss."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kube_crds import schema_of
from kube_runtime import Client
from lifecycle_manager_api import as_document, decode
from lifecycle_manager_api.crds import KINDS
from tests.integration.api.objects import COMPLETE, EXAMPLES, RESOURCES, in_namespace, read

TYPES = {kind.KIND: kind for kind in KINDS}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_documented_example_is_accepted(served: Client, namespace: str, name: str) -> None:
    document = in_namespace(read(EXAMPLES[name]), namespace)

    await served.create(RESOURCES[document["kind"]], document, namespace, field_manager="test")


@pytest.mark.parametrize("name", COMPLETE)
async def test_every_field_is_stored_and_returned(served: Client, namespace: str, name: str) -> None:
    document = in_namespace(read(COMPLETE[name]), namespace)
    resource = RESOURCES[document["kind"]]

    stored = await served.create(resource, document, namespace, field_manager="test")
    if "status" in document:
        whole = stored | {"status": document["status"]}
        name = stored["metadata"]["name"]
        stored = await served.replace(resource, name, whole, namespace, field_manager="test", subresource="status")
    through_type = as_document(decode(TYPES[document["kind"]], json.dumps(stored)))

    for part in ("spec", "status"):
        assert stored.get(part) == _with_defaults(document, part)
        assert _leaves(through_type.get(part, {}), "") == _leaves(document.get(part, {}), "")


def test_complete_objects_have_every_field() -> None:
    """Or the test above would say nothing of a field that was added."""
    for kind in KINDS:
        written = {
            path
            for file in COMPLETE.values()
            if (document := read(file))["kind"] == kind.KIND
            for path in _paths(document)
        }
        known = {path for part in ("spec", "status") for path in _schema_paths(schema_of(kind), part)}
        assert known - written == set(), kind.KIND


def _paths(value: Any, at: str = "") -> Iterator[str]:
    if at:
        yield at
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _paths(each, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, f"{at}[]")


def _schema_paths(schema: Mapping[str, Any], part: str) -> Iterator[str]:
    field = schema.get("properties", {}).get(part)
    if field is not None:
        yield from _fields_of(field, part)


def _fields_of(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    yield at
    for name, field in schema.get("properties", {}).items():
        yield from _fields_of(field, f"{at}.{name}")
    if "items" in schema:
        yield from _fields_of(schema["items"], f"{at}[]")


def _with_defaults(document: dict[str, Any], part: str) -> Any:
    given = document.get(part)
    if document["kind"] == "ModuleReleaseMeta" and part == "spec":
        return {"beta": False, "internal": False} | (given or {})
    return given


def _leaves(value: Any, at: str) -> dict[str, Any]:
    """Return the values that are not empty, by their paths: a type leaves empty ones out."""
    if isinstance(value, Mapping):
        return {path: leaf for name, each in value.items() for path, leaf in _leaves(each, f"{at}.{name}").items()}
    if isinstance(value, list):
        return {path: leaf for index, each in enumerate(value) for path, leaf in _leaves(each, f"{at}.{index}").items()}
    return {} if value in ("", None) else {at: value}
