"""Which values of an object are replaced that do not fit the schema of its kind any more, and nothing beyond that."""

from typing import Any

from kube_runtime import Invalid
from kube_runtime.client.outgrown import forgotten_owners, replacing, unfit_in

LIVE: dict[str, Any] = {"metadata": {"resourceVersion": "7", "managedFields": [{"manager": "x"}]}, "spec": {"a": "1"}}
UNFIT = "failed to create typed live object (p/n; a.b/v1, Kind=Thing): "


def replaced(document: dict[str, Any], message: str) -> dict[str, Any] | None:
    return replacing(LIVE, document, unfit_in(Invalid(500, "InternalError", message)))


def test_each_field_that_the_server_names_gets_the_value_of_the_document() -> None:
    message = f"{UNFIT}errors:  .spec.a: expected numeric, got string  .spec.b.c: element 0: no map"
    patch = replaced({"spec": {"a": 1, "b": {"c": [{"n": "x"}], "d": 2}}}, message)
    assert patch == {"spec": {"a": 1, "b": {"c": [{"n": "x"}]}}, "metadata": {"resourceVersion": "7"}}


def test_nothing_is_replaced_where_the_document_lacks_a_field() -> None:
    message = f"{UNFIT}errors:  .spec.a: expected numeric, got string  .spec.b: expected map, got &{{1}}"
    assert replaced({"spec": {"a": 1}}, message) is None


def test_item_of_a_list_is_not_replaced() -> None:
    assert replaced({"spec": {"a": [{"n": "x"}]}}, f'{UNFIT}.spec.a[n="x"].v: expected numeric, got string') is None


def test_nothing_is_replaced_where_the_document_is_what_does_not_fit() -> None:
    message = "failed to create typed patch object (p/n; a.b/v1, Kind=Thing): .spec.a: expected numeric, got string"
    assert replaced({"spec": {"a": 1}}, message) is None


def test_owners_are_restored_only_where_none_is_left() -> None:
    forgotten: dict[str, Any] = {"metadata": {"resourceVersion": "8"}}
    patch = {"metadata": {"managedFields": [{"manager": "x"}], "resourceVersion": "8"}}
    assert forgotten_owners(LIVE, forgotten) == patch
    assert forgotten_owners(LIVE, LIVE) is None
    assert forgotten_owners(forgotten, forgotten) is None
