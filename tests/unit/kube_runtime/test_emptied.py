"""Which maps are emptied by a patch where the API server has made a null of them, and nothing beyond that."""

from typing import Any

from kube_runtime import Invalid
from kube_runtime.client.emptied import emptying, nulls_in

LIVE: dict[str, Any] = {
    "metadata": {"resourceVersion": "7"},
    "spec": {"map": {"a": 1, "b": {"c": 2}}, "empty": {}, "items": [{"map": {"a": 1}}], "odd": {"x.y/z": {"a": 1}}},
}
Cause = dict[str, str]
UNCHECKED = {"reason": "FieldValueInvalid", "message": "some validation rules were not checked", "field": "<nil>"}


def null_at(field: str) -> Cause:
    message = f'Invalid value: "null": {field} must be of type object: "null"'
    return {"reason": "FieldValueTypeInvalid", "message": message, "field": field}


def emptied(document: dict[str, Any], *causes: Cause) -> dict[str, Any] | None:
    return emptying(LIVE, document, nulls_in(Invalid(422, "Invalid", "it is", {"causes": causes})))


def test_each_field_of_a_map_goes() -> None:
    patch = emptied({"spec": {"map": {}}}, null_at("spec.map"), UNCHECKED)
    assert patch == {"spec": {"map": {"a": None, "b": None}}, "metadata": {"resourceVersion": "7"}}


def test_key_in_brackets_is_found() -> None:
    patch = emptied({"spec": {"odd": {"x.y/z": {}}}}, null_at("spec.odd[x.y/z]"))
    assert patch is not None
    assert patch["spec"] == {"odd": {"x.y/z": {"a": None}}}


def test_nothing_is_emptied_where_the_document_has_no_empty_map() -> None:
    assert emptied({"spec": {"map": {"a": 1}}}, null_at("spec.map")) is None
    assert emptied({"spec": {"map": None}}, null_at("spec.map")) is None
    assert emptied({"spec": {}}, null_at("spec.map")) is None


def test_map_in_an_item_of_a_list_stays() -> None:
    assert emptied({"spec": {"items": [{"map": {}}]}}, null_at("spec.items[0].map")) is None


def test_nothing_is_emptied_where_something_else_is_wrong_too() -> None:
    other = {"reason": "FieldValueInvalid", "message": "Invalid value: 3", "field": "spec.number"}
    assert emptied({"spec": {"map": {}, "number": 3}}, null_at("spec.map"), other) is None
    assert emptied({"spec": {"map": {}}}, UNCHECKED) is None
    assert emptied({"spec": {"map": {}}}) is None
