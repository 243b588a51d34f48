"""Module CRs against the schema of their CRD, and objects of built-in kinds against their types."""

from typing import Any

import pytest

from kyma_module_manager.project.kinds import kind_violations
from kyma_module_manager.project.schema import violations
from tests.kinds import crd_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "state": {"type": "string", "enum": ["on", "off"]},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
                "empty": {"type": "string", "nullable": True},
                "items": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                },
            },
        }
    },
}


def found(spec: dict[str, Any]) -> list[str]:
    return list(violations({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}, SCHEMA))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"size": 1, "name": "abc", "state": "on"},
        {"port": 80},
        {"port": "http"},
        {"free": {"anything": [1, {"goes": None}]}},
        {"labels": {"a": "b"}},
        {"empty": None},
        {"items": [{"name": "a"}, {"name": "b"}]},
    ],
)
def test_what_fits_is_left_alone(spec: dict[str, Any]) -> None:
    assert found(spec) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"size": "1"}, "spec.size is str, not integer"),
        ({"size": True}, "spec.size is bool, not integer"),
        ({"size": 0}, "spec.size is 0, fewer than 1"),
        ({"size": 11}, "spec.size is 11, more than 10"),
        ({"size": None}, "spec.size is null"),
        ({"name": "ABC"}, "spec.name is 'ABC', which does not match ^[a-z]+$"),
        ({"name": "abcdef"}, "spec.name has 6 characters, more than 5"),
        ({"state": "broken"}, "spec.state is 'broken', not one of ['on', 'off']"),
        ({"port": True}, "spec.port is bool, not an integer or string"),
        ({"colour": "red"}, "spec.colour is not in the schema"),
        ({"labels": {"a": 1}}, "spec.labels.a is int, not string"),
        ({"labels": {"a": "1", "b": "2", "c": "3"}}, "spec.labels has 3 fields, more than 2"),
        ({"items": [{}]}, "spec.items[0] has no name"),
        ({"items": [{"name": "a"}, {"name": "a"}]}, "spec.items[1] has the same key as an item before it"),
        ({"items": [{"name": x} for x in "abc"]}, "spec.items has 3 items, more than 2"),
    ],
)
def test_violation_is_reported_with_its_field(spec: dict[str, Any], problem: str) -> None:
    assert found(spec) == [problem]


def test_missing_spec_is_named() -> None:
    assert list(violations({}, SCHEMA)) == ["the object has no spec"]


def crd(**field: Any) -> dict[str, Any]:
    return crd_of("g", "K", scope="Cluster", schema={"type": "object", "properties": {"field": field}})


FIELD = "spec.versions[0].schema.openAPIV3Schema.properties.field"


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ({"enum": ["a", None], "default": None}, None),
        ({"additionalProperties": True, "items": {"type": "string"}}, None),
        ({"properties": {"a": True}}, f"{FIELD}.properties.a is bool, not object"),
        ({"items": {"typ": "string"}}, f"{FIELD}.items.typ is not in the schema"),
        ({"properties": {"a": None}}, f"{FIELD}.properties.a is null"),
        ({"required": [1]}, f"{FIELD}.required[0] is int, not string"),
    ],
)
def test_schemas_in_a_crd_are_checked_at_each_level(field: dict[str, Any], problem: str | None) -> None:
    assert list(kind_violations(crd(**field), complete=True)) == ([] if problem is None else [problem])


@pytest.mark.parametrize(("cpu", "problems"), [("500m", []), (0.5, []), ([1], ["spec.hard.cpu is list, not quantity"])])
def test_quantity_may_be_a_number(cpu: object, problems: list[str]) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"cpu": cpu}, "scopes": None}}
    assert list(kind_violations(quota)) == problems


def test_required_fields_are_named_in_complete_objects_alone() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"lables": {}}, "spec": {"selector": None}}
    assert list(kind_violations(deployment)) == ["metadata.lables is not in the schema"]
    found = list(kind_violations(deployment, complete=True))
    assert found == ["metadata.lables is not in the schema", "spec has no template", "spec.selector is null"]
