"""What an applier takes over of others where the API server refuses a document, and nothing beyond that."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import StatusCause
from kube_runtime.apply.claims import FieldClaim, claim_of

DOCUMENT = {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "http", "port": 80}], "selector": {"app": "x"}}}
OURS: dict[str, Any] = {
    "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}}
}
PORT: dict[str, Any] = {'k:{"port":90,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}
THEIRS = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:ports": PORT, "f:type": {}}}
DUPLICATE = StatusCause("FieldValueDuplicate", 'Duplicate value: "http"', "spec.ports[1].name")


def owned(manager: str, fields: Any, operation: str = "Apply", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def live(*entries: Any, **content: Any) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}, **content}


def claimed(cause: StatusCause, document: dict[str, Any], *entries: Any, **content: Any) -> FieldClaim | None:
    return claim_of("ours", live(*entries, **content), document, [cause])


def test_list_that_is_refused_is_taken_and_what_is_beside_stays() -> None:
    found = claimed(DUPLICATE, DOCUMENT, owned("ours", OURS), owned("user", THEIRS, "Update"))
    assert found is not None
    kept, ours = found.managed_fields
    left = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:type": {}}}
    assert kept == owned("user", left, "Update")
    assert ours == owned("ours", {"f:spec": {"f:ports": {**OURS["f:spec"]["f:ports"], **PORT}}})
    assert found.trial == {"spec": DOCUMENT["spec"]}


def test_owner_of_nothing_else_disappears() -> None:
    found = claimed(DUPLICATE, DOCUMENT, owned("user", {"f:spec": {"f:ports": PORT}}, "Update"))
    assert found is not None
    assert found.managed_fields == [owned("ours", {"f:spec": {"f:ports": PORT}})]


def test_alternative_to_a_field_is_removed_in_the_trial() -> None:
    document = {"spec": {"minAvailable": 1}}
    cause = StatusCause("FieldValueInvalid", "minAvailable and maxUnavailable cannot be both set", "spec")
    found = claimed(cause, document, owned("user", {"f:spec": {"f:maxUnavailable": {}}}, "Update"))
    assert found is not None
    assert found.trial == {"spec": {"minAvailable": 1, "maxUnavailable": None}}


@pytest.mark.parametrize("field", ["spec.more.map.a.b", "spec.more.list[0].a.b"])
def test_of_a_section_that_the_document_lacks_only_the_place_is_taken(field: str) -> None:
    items: dict[str, Any] = {'k:{"name":"x"}': {"f:a": {}}}
    theirs: dict[str, Any] = {"f:map": {}, "f:list": items, "f:note": {}}
    found = claimed(
        StatusCause("FieldValueInvalid", "no", field), DOCUMENT, owned("user", {"f:spec": {"f:more": theirs}})
    )
    taken = "f:map" if "map" in field else "f:list"
    assert found is not None
    assert found.managed_fields[-1]["fieldsV1"] == {"f:spec": {"f:more": {taken: theirs.pop(taken)}}}
    assert found.managed_fields[0]["fieldsV1"] == {"f:spec": {"f:more": theirs}}


def test_value_of_a_wrong_type_takes_nothing() -> None:
    document: dict[str, Any] = {"spec": {"map": {}}}
    cause = StatusCause("FieldValueTypeInvalid", "spec.map in body must be of type object", "spec.map")
    assert claimed(cause, document, owned("user", {"f:spec": {"f:text": {}}}, "Update")) is None


def test_default_that_nobody_owns_is_taken() -> None:
    document = {"spec": {"strategy": {"type": "Recreate"}}}
    cause = StatusCause("FieldValueForbidden", "may not be specified", "spec.strategy.rollingUpdate")
    content = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    found = claimed(cause, document, owned("ours", {"f:spec": {}}), **content)
    assert found is not None
    rolling: dict[str, Any] = {"f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}}}
    assert found.managed_fields == [owned("ours", {"f:spec": {".": {}, **rolling}})]
    assert found.trial == {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}


@pytest.mark.parametrize(
    "field", ["", "metadata.labels[a]", "status.ready", "spec.ports[", "other[0].name", "spec.ports[0].port.x.y"]
)
def test_where_others_have_nothing_there_is_nothing_to_take(field: str) -> None:
    entries = (owned("ours", OURS), owned("user", {"f:spec": {"f:type": {}}}, "Update", subresource="status"))
    assert claimed(StatusCause("FieldValueInvalid", "no", field), DOCUMENT, *entries) is None


FIELDS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.just({}),
    lambda below: st.dictionaries(
        st.sampled_from(["f:spec", "f:ports", "f:name", ".", 'k:{"name":"a"}', 'k:{"name":"b"}', "v:1"]), below
    ),
    max_leaves=8,
)
STEPS = st.lists(st.sampled_from(["spec", "ports", "name", "[0]", "[1]"]), min_size=1, max_size=5)
VALUES = st.recursive(
    st.sampled_from(["a", 1, None]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["spec", "ports", "name"]), below),
    max_leaves=6,
)


def paths(fields: dict[str, Any]) -> set[tuple[str, ...]]:
    """Return what a set of fields names: steps without anything below, and `.` for those that have more."""
    found: set[tuple[str, ...]] = set()
    for step, below in fields.items():
        found |= {(step,) if step != "." else ()} if not below else {(step, *each) for each in paths(below)}
    return found


@given(
    theirs=FIELDS,
    ours=FIELDS,
    steps=STEPS,
    value=VALUES,
    reason=st.sampled_from(["FieldValueDuplicate", "FieldValueInvalid"]),
)
def test_every_field_has_an_owner_as_before_and_only_those_at_the_place_another_one(
    theirs: dict[str, Any], ours: dict[str, Any], steps: list[str], value: Any, reason: str
) -> None:
    cause = StatusCause(reason, "no", ".".join(steps).replace(".[", "["))
    document = {"spec": value, "ports": value}
    entries = (owned("ours", ours), owned("user", theirs, "Update"))
    found = claimed(cause, document, *entries)
    after = {each["manager"]: paths(each["fieldsV1"]) for each in found.managed_fields} if found is not None else {}
    if found is None:
        return
    moved = paths(theirs) - after.get("user", set())
    assert after["ours"] >= paths(ours) | moved
    names = [step for step in steps if not step.startswith("[")]
    first = f"f:{names[0]}"
    assert all(path[0] == first for path in moved if path), "what is elsewhere stays theirs"
