"""Which changes are reported, and that nothing a user sends makes the decision fail."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skr_watcher.admission import ReviewMalformed, allowed, decode_review
from skr_watcher.changes import CANARY_ANNOTATION, HEARTBEAT, ObjectChange, canary_in, change_in

APPLIED = {"manager": "lifecycle-manager", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}}
METADATA = {"name": "default", "namespace": "kyma-system", "uid": "u", "resourceVersion": "7", "generation": 2}


def thing(metadata: dict[str, Any] | None = None, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": METADATA | (metadata or {}), "spec": {"a": 1}} | content


def change(operation: str, old: Any = None, new: Any = None, **request: Any) -> ObjectChange | None:
    review = {
        "request": {
            "uid": "review",
            "kind": {"group": "example.com", "version": "v1", "kind": "Thing"},
            "name": "default",
            "namespace": "kyma-system",
            "operation": operation,
            "object": new,
            "oldObject": old,
        }
        | request
    }
    return change_in("lifecycle-manager", decode_review(msgspec.json.encode(review)))


def test_create_has_no_previous_resource_version() -> None:
    event = change("CREATE", new=thing())
    assert event is not None
    assert (event.operation, event.uid, event.resource_version, event.name) == ("CREATE", "u", "", "default")


def test_delete_is_relevant() -> None:
    event = change("DELETE", old=thing())
    assert event is not None
    assert event.uid == "u"


def test_each_object_of_a_deleted_collection_is_named() -> None:
    """So does the end of a namespace come: the request has no name, and the object has."""
    event = change("DELETE", old=thing({"name": "one"}), name="")
    assert event is not None
    assert (event.name, event.namespace) == ("one", "kyma-system")


def test_create_with_a_generated_name_has_that_name() -> None:
    event = change("CREATE", new=thing({"name": "one-x7f2k"}), name="")
    assert event is not None
    assert event.name == "one-x7f2k"


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_namespace_is_in_no_namespace(operation: str) -> None:
    """An API server gives its own name as its namespace: kubernetes/kubernetes#95012."""
    kind = {"group": "", "version": "v1", "kind": "Namespace"}
    old, new = thing({"name": "one", "namespace": ""}), thing({"name": "one", "namespace": ""}, spec={"a": 2})
    event = change(operation, old=old, new=new, kind=kind, name="one", namespace="one")
    assert event is not None
    assert (event.kind, event.namespace, event.name) == ("Namespace", "", "one")


def test_update_of_the_spec_has_the_previous_resource_version() -> None:
    event = change("UPDATE", old=thing(), new=thing({"generation": 3}, spec={"a": 2}))
    assert event is not None
    assert (event.resource_version, event.generation) == ("7", 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(thing(), thing({"deletionTimestamp": "2026-11-01T12:00:00Z"}), id="deletion timestamp"),
        pytest.param(thing(), thing({"finalizers": ["x"]}), id="finalizers"),
        pytest.param(thing(), thing({"labels": {"operator.kyma-project.io/beta": "true"}}), id="our label"),
        pytest.param(thing(), thing({"annotations": {"operator.kyma-project.io/x": "y"}}), id="our annotation"),
        pytest.param(
            {"metadata": METADATA, "data": {"a": "1"}}, {"metadata": METADATA, "data": {"a": "1"}}, id="no spec"
        ),
        pytest.param(thing(), {"metadata": METADATA}, id="spec went"),
        pytest.param(thing(config=1), thing({"generation": 3}, config=2), id="a field beside the spec"),
        pytest.param(
            thing({"managedFields": [APPLIED]}),
            thing({"managedFields": [APPLIED | {"fieldsV1": {}}, {"manager": "kubectl", "operation": "Update"}]}),
            id="a field that the control plane has applied",
        ),
    ],
)
def test_update_is_relevant(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert change("UPDATE", old=old, new=new) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(thing(), thing(), id="nothing"),
        pytest.param(thing(), thing({"labels": {"mine": "x"}}), id="a user's label"),
        pytest.param(thing(), thing({"resourceVersion": "8", "managedFields": [{}]}), id="bookkeeping"),
        pytest.param(
            thing({"managedFields": [APPLIED]}),
            thing({"managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:b": {}}}, APPLIED]}),
            id="a field of somebody else",
        ),
        pytest.param(thing(), thing(status={"state": "Ready"}), id="status, by way of the object"),
        pytest.param(thing(spec={"a": 1, "b": 2}), thing(spec={"b": 2, "a": 1}), id="order of keys"),
    ],
)
def test_update_is_not_relevant(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert change("UPDATE", old=old, new=new) is None


def test_status_is_relevant_for_the_status_subresource_only() -> None:
    old, new = thing(), thing(status={"state": "Ready"})
    assert change("UPDATE", old=old, new=new, subResource="status") is not None
    assert change("UPDATE", old=old, new=thing(spec={"a": 2}), subResource="status") is None


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_dry_run_is_not_relevant(operation: str) -> None:
    assert change(operation, old=thing(), new=thing(spec={"a": 2}), dryRun=True) is None


def dry_run(old: dict[str, Any], new: dict[str, Any], **request: Any) -> ObjectChange | None:
    given = {"uid": "u", "operation": "UPDATE", "dryRun": True, "object": new, "oldObject": old} | request
    return canary_in("lifecycle-manager", decode_review(msgspec.json.encode({"request": given})))


def test_dry_run_of_the_canary_becomes_a_heartbeat_without_an_object() -> None:
    event = dry_run(thing(), thing({"annotations": {CANARY_ANNOTATION: "2"}}))
    assert event is not None
    assert (event.operation, event.name, event.kind, event.uid) == (HEARTBEAT, "canary", "", "")
    assert event.challenge == "2"


def test_canary_that_is_stored_returns_its_challenge() -> None:
    event = change("UPDATE", old=thing(), new=thing({"annotations": {CANARY_ANNOTATION: "2"}}))
    assert event is not None
    assert event.challenge == "2"


@pytest.mark.parametrize(
    ("old", "new", "request_"),
    [
        pytest.param(thing(), thing(spec={"a": 2}), {}, id="some other dry run"),
        pytest.param(
            thing({"annotations": {CANARY_ANNOTATION: "1"}}),
            thing({"annotations": {CANARY_ANNOTATION: "1"}}),
            {},
            id="unchanged",
        ),
        pytest.param(thing(), thing({"annotations": {CANARY_ANNOTATION: "2"}}), {"dryRun": False}, id="no dry run"),
    ],
)
def test_other_requests_are_not_the_canary(old: dict[str, Any], new: dict[str, Any], request_: dict[str, Any]) -> None:
    assert dry_run(old, new, **request_) is None


def test_connect_is_not_relevant() -> None:
    assert change("CONNECT", new=thing()) is None


def test_undecodable_object_is_relevant() -> None:
    assert change("UPDATE", old={"metadata": 7}, new={"metadata": 7}) is not None


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'{"request": {}}', b'{"request": null}', b"\xff"])
def test_invalid_review_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(ReviewMalformed, match="AdmissionReview"):
        decode_review(body)


def test_response_has_the_uid() -> None:
    answer = msgspec.json.decode(allowed("abc"))
    assert answer["response"] == {"uid": "abc", "allowed": True}
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@given(operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]), old=JSON, new=JSON)
def test_any_object_gets_a_decision(operation: str, old: Any, new: Any) -> None:
    change(operation, old=old, new=new)


@pytest.mark.parametrize("deep", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000])
def test_deep_nesting_gets_a_decision(deep: bytes) -> None:
    body = b'{"request":{"uid":"u","operation":"UPDATE","oldObject":{"spec":1},"object":{"spec":' + deep + b"}}}"
    with suppress(ReviewMalformed):
        assert change_in("lifecycle-manager", decode_review(body)) is not None


@given(metadata=st.dictionaries(st.sampled_from([*METADATA, "finalizers", "labels"]), JSON), spec=JSON)
def test_any_metadata_gets_a_decision(metadata: dict[str, Any], spec: Any) -> None:
    change("UPDATE", old=thing(metadata, spec=spec), new=thing(spec=spec))
