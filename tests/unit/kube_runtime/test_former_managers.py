"""Which fields belong to whom after what former managers have applied was moved."""

from typing import Any

import pytest

from kube_runtime.apply.former_managers import merged_into


def entry(manager: str, fields: Any, operation: str = "Apply", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def live(*entries: Any) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}}


def test_former_entry_becomes_ours() -> None:
    others = [entry("user", {"f:data": {"f:b": {}}}), entry("former", {"f:status": {}}, subresource="status")]
    fields: dict[str, Any] = {"f:data": {"f:a": {}}}
    assert merged_into("ours", live(entry("former", fields), *others), {"former"}) == [*others, entry("ours", fields)]


def test_what_was_applied_to_a_status_is_moved_within_the_status() -> None:
    fields: dict[str, Any] = {"f:status": {"f:state": {}}}
    spec = entry("former", {"f:spec": {}})
    status = entry("former", fields, subresource="status")
    moved = merged_into("ours", live(spec, status), {"former"}, subresource="status")
    assert moved == [spec, entry("ours", fields, subresource="status")]


def test_fields_of_several_managers_are_united() -> None:
    ours = entry("ours", {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}})
    former = entry("former", {"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {}}})
    older = entry("older", {'k:{"name":"a"}': {".": {}, "f:name": {}}})
    merged = merged_into("ours", live(former, ours, older), {"former", "older"})
    assert merged == [
        entry(
            "ours",
            {
                "f:data": {".": {}, "f:a": {}, "f:b": {}},
                "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
                'k:{"name":"a"}': {".": {}, "f:name": {}},
            },
        )
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [entry("ours", {})],
        [entry("former", {}, "Update")],
        [entry("former", {}, subresource="status")],
        ["former", None, 3],
    ],
    ids=str,
)
def test_without_a_former_applier_nothing_is_moved(entries: list[Any]) -> None:
    assert merged_into("ours", live(*entries), {"former"}) is None
    assert merged_into("ours", {"metadata": {}}, {"former"}) is None


@pytest.mark.parametrize("fields", [None, "text", [], {"f:a": None}, {"f:a": "text"}], ids=str)
def test_fields_that_are_no_fields_are_nothing(fields: Any) -> None:
    assert merged_into("ours", live(entry("former", fields), entry("ours", {"f:a": {"f:b": {}}})), {"former"})


def nested(depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for _ in range(depth):
        fields = {"f:a": fields}
    return fields


@pytest.mark.parametrize("fields", ["all", {"f:data": 1}, [], nested(400)], ids=["text", "number", "list", "nested"])
def test_what_is_no_set_of_fields_is_not_taken_over(fields: Any) -> None:
    ours = entry("ours", {"f:data": {}})
    assert merged_into("ours", live(ours, entry("former", fields)), {"former"}) == [ours]
