"""What a message about an object that the API server refuses says: the fields and the reason."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import ApiError, Conflict, Invalid, RequestTooLarge
from kube_runtime.apply.claims import claim_of
from kube_runtime.apply.refusals import explained, immutable_fields
from kube_runtime.client.answers import error_from_answer
from tests.cpu_time import takes_at_most


def invalid(*causes: tuple[str, str]) -> Invalid:
    listed = [{"field": field, "message": message, "reason": "FieldValueInvalid"} for field, message in causes]
    return Invalid(422, "Invalid", "Job.batch is invalid", {"causes": listed})


POD = 'Invalid value: {"labels":{"a":"b: c"},"Spec":{"Containers":[{"Name":"c"}]}}: field is immutable'
DIFFERENCE = 'Forbidden: spec is immutable after creation\n@@ -1,6 +1,6 @@\n {\n-  "ReadWriteOnce"\n'


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (("spec.template", POD), "spec.template: field is immutable"),
        (("spec", DIFFERENCE), "spec: Forbidden: spec is immutable after creation"),
        (("value", "Invalid value: 2: field is immutable"), "value: Invalid value: 2: field is immutable"),
        (("ips[0]", 'Invalid value: ["None"]: may not change once set'), "ips[0]: may not change once set"),
        (("a", f'Invalid value: "{"x" * 200}": too long'), "a: too long"),
        (("spec", "Required value"), "spec: Required value"),
        (("", "nothing is right"), "nothing is right"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_cause_is_told_without_a_value_that_is_longer_than_the_reason(cause: tuple[str, str], sentence: str) -> None:
    assert explained(invalid(cause)) == sentence


def test_causes_of_any_length_and_number_are_read_in_no_time() -> None:
    cause = {"field": "[" * 20_000, "message": "updates to " * 20_000, "reason": "FieldValueInvalid"}
    one, many = (
        error_from_answer(422, msgspec.json.encode({"kind": "Status", "details": {"causes": causes}}))
        for causes in ([cause], [cause] * 1_000)
    )
    assert isinstance(one, Invalid)
    assert isinstance(many, Invalid)

    def read() -> None:
        assert immutable_fields(one) == ()
        assert claim_of("me", {"metadata": {}}, {"spec": {}}, one.causes) is None
        assert len(explained(one)) < 5_000

    assert takes_at_most(1.0, read)
    assert many.causes == ()


def test_field_is_immutable_however_long_the_value_is_that_the_server_quotes() -> None:
    quoted = "{" + '"Env":null,' * 2_000 + "}"
    error = invalid(("spec.template", f"Invalid value: {quoted}: field is immutable"))
    assert immutable_fields(error) == ("spec.template",)
    assert explained(error) == "spec.template: field is immutable"


def test_policy_that_refuses_changes_makes_no_field_immutable() -> None:
    error = invalid(("", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: roles cannot be changed"))
    assert immutable_fields(error) == ()


def test_cause_that_the_server_gives_twice_is_told_once() -> None:
    assert explained(invalid(("a", "no"), ("b", "no"), ("a", "no"))) == "a: no; b: no"


def test_owner_of_a_field_is_named() -> None:
    causes = [{"field": ".data.x", "message": 'conflict with "user"', "reason": "FieldManagerConflict"}]
    assert explained(Conflict(409, "Conflict", "1 conflict", {"causes": causes})) == '.data.x: conflict with "user"'


def test_other_errors_are_told_as_they_are() -> None:
    assert explained(ApiError(403, "Forbidden", "no")) == "no (403 Forbidden)"
    assert explained(ValueError("odd")) == "odd"


@pytest.mark.parametrize(
    ("causes", "fields"),
    [
        ([("spec.template", POD)], ("spec.template",)),
        ([("roleRef", "Invalid value: {}: cannot change roleRef")], ("roleRef",)),
        ([("value", "Forbidden: may not be changed in an update.")], ("value",)),
        ([("spec", "Forbidden: updates to statefulset spec for fields other than 'x' are forbidden")], ("spec",)),
        ([("spec.template", POD), ("spec.parallelism", "must be greater than or equal to 0")], ()),
        ([], ()),
    ],
    ids=str,
)
def test_field_that_may_not_change_counts_only_where_nothing_else_is_wrong(
    causes: list[tuple[str, str]], fields: tuple[str, ...]
) -> None:
    assert immutable_fields(invalid(*causes)) == fields


UNCONVERTIBLE = (
    "failed to convert new object (p/s; /v1, Kind=Secret) to proper version: unable to convert unstructured object to "
    "/v1, Kind=Secret"
)
SEVERAL = (
    "failed to create typed patch object (p/n; /v1, Kind=ConfigMap): errors:\\n  .data.a: expected string, got "
    "&value.valueUnstructured{Value:1}\\n  .metadata.labels.v: expected string, got "
    "&value.valueUnstructured{Value:true}"
)
UNFIT = "failed to create typed patch object (p/n; /v1, Kind=ConfigMap): .data.a: expected string, got "


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (f"{UNFIT}&value.valueUnstructured{{Value:1}}", "data.a: expected string, got 1"),
        (
            "failed to create typed live object (p/n; a.b/v1, Kind=Thing): .spec.a: expected list, got &{map[]}",
            "the object in the cluster does not fit the schema of its kind: spec.a: expected list, got map[]",
        ),
        (SEVERAL, "data.a: expected string, got 1; metadata.labels.v: expected string, got true"),
        (
            f"{UNCONVERTIBLE}: error decoding from json: illegal base64 data at input byte 3",
            "illegal base64 data at input byte 3",
        ),
    ],
)
def test_document_that_does_not_fit_its_schema_is_invalid_although_answered_by_500(message: str, sentence: str) -> None:
    error = error_from_answer(500, b'{"kind":"Status","code":500,"message":"%s"}' % message.encode())
    assert isinstance(error, Invalid)
    assert explained(error) == sentence


@pytest.mark.parametrize(
    "message",
    [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2200000 vs. 2097152)",
    ],
)
def test_object_that_etcd_does_not_store_is_too_large_although_answered_by_500(message: str) -> None:
    answer = b'{"kind":"Status","code":500,"message":"%s"}' % message.encode()
    assert isinstance(error_from_answer(500, answer), RequestTooLarge)


@pytest.mark.parametrize("code", [500, 503])
def test_server_that_fails_for_another_reason_is_not_taken_for_invalid_content(code: int) -> None:
    error = error_from_answer(code, b'{"kind":"Status","message":"etcdserver: request timed out"}')
    assert not isinstance(error, Invalid)


VALUES = st.dictionaries(st.text(max_size=5), st.text(max_size=40), min_size=1).map(repr)


@given(value=VALUES, field=st.from_regex(r"[a-z]{1,8}", fullmatch=True))
def test_no_structure_is_quoted(value: Any, field: str) -> None:
    value = " ".join(value.split())
    assert explained(invalid((field, f"Invalid value: {value}: field is immutable"))) == f"{field}: field is immutable"
