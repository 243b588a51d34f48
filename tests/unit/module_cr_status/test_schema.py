"""What is remembered of a CRD in a cluster: its users may have one of megabytes."""

from typing import Any

import msgspec
import pytest

from lifecycle_manager.module_cr_status.schema import StatusSchema, schema_in

ANY: dict[str, Any] = {}
MANY, LONG = {f"field{number}": ANY for number in range(50_000)}, {"x" * 1_000_000: ANY}


def schema_of(status: dict[str, Any]) -> StatusSchema:
    root = {"properties": {"status": status}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": root}, "subresources": {"status": {}}}
    return schema_in(msgspec.json.encode({"spec": {"versions": [version]}}), "v1")


def test_fields_of_a_status_are_known() -> None:
    conditions = {"items": {"properties": {"type": ANY, "status": ANY}}}
    found = schema_of({"properties": {"state": {"enum": ["Ready", "Error"]}, "conditions": conditions}})
    assert found == StatusSchema(
        frozenset({"state", "conditions"}), frozenset({"type", "status"}), frozenset({"Ready", "Error"})
    )


@pytest.mark.parametrize("fields", [MANY, LONG])
def test_of_more_fields_than_any_status_has_none_is_remembered(fields: dict[str, Any]) -> None:
    assert schema_of({"properties": fields}) == StatusSchema()
    conditions = {"items": {"properties": fields}}
    states = {"enum": [*fields]}
    found = schema_of({"properties": {"state": states, "conditions": conditions}})
    assert found == StatusSchema(frozenset({"state", "conditions"}))
