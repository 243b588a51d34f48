"""What of a status is the Lifecycle Manager's, and what is left of it for a Module Manager."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import load_yaml
from lifecycle_manager.contract.owned_fields import (
    MODULE_CR_STATUS_MANAGER,
    only_owned,
    owned_status_fields,
    without_owned,
)
from lifecycle_manager.module_config.texts import text_of
from tests import builders

READY = {"type": "Ready", "status": "True", "reason": "Applied", "message": ""}
OTHER = {"type": "Attached", "status": "True", "reason": "Attached", "message": ""}
READY_FIELDS: dict[str, Any] = {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {}}
FIELDS: dict[str, Any] = {
    "f:state": {},
    "f:conditions": {'k:{"type":"Ready"}': READY_FIELDS},
    "f:gateway": {"f:address": {}},
}
STATUS = {
    "state": "Ready",
    "conditions": [READY, OTHER],
    "gateway": {"address": "10.0.0.1", "zone": "a"},
    "phase": "Up",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["f:status", "f:a", "k:{", "manager", "a"]), each)
    ),
    max_leaves=12,
)


def managed(
    fields: Any, *, manager: str = MODULE_CR_STATUS_MANAGER, subresource: str = "status"
) -> list[dict[str, Any]]:
    return [{"manager": manager, "subresource": subresource, "operation": "Apply", "fieldsV1": {"f:status": fields}}]


def test_status_is_split_into_ours_and_that_of_others() -> None:
    assert without_owned(STATUS, FIELDS) == {"conditions": [OTHER], "gateway": {"zone": "a"}, "phase": "Up"}
    ours = only_owned(STATUS, FIELDS)
    assert (ours["state"], ours["conditions"], set(ours)) == ("Ready", [READY], {"state", "conditions", "gateway"})


def test_atomic_list_is_owned_as_a_whole() -> None:
    assert without_owned({"conditions": [READY]}, {"f:conditions": {}}) is None
    assert only_owned({"conditions": [READY]}, {"f:conditions": {}}) == {"conditions": [READY]}


@pytest.mark.parametrize("other", [{"manager": "kubectl"}, {"subresource": ""}])
def test_fields_of_others_are_not_ours(other: dict[str, str]) -> None:
    assert owned_status_fields(managed(FIELDS)) == FIELDS
    assert owned_status_fields(managed(FIELDS, **other)) == {}


def test_our_status_does_not_change_the_text() -> None:
    module_cr = builders.infrastructure(nfsVolumes=[])
    before = text_of(module_cr)
    module_cr["status"] = {"state": "Ready", "conditions": [READY]}
    module_cr["metadata"] |= {"managedFields": managed(FIELDS), "resourceVersion": "8"}
    assert text_of(module_cr) == before


def test_record_of_managers_hides_nothing_but_status() -> None:
    """A user may write any record."""
    module_cr = builders.infrastructure(nfsVolumes=["mine"])
    module_cr["metadata"]["managedFields"] = [
        {"manager": MODULE_CR_STATUS_MANAGER, "subresource": "status", "fieldsV1": {"f:spec": {}, "f:metadata": {}}}
    ]
    assert load_yaml(text_of(module_cr))["spec"] == {"nfsVolumes": ["mine"]}


@given(record=JSON, fields=JSON, status=JSON)
def test_no_record_is_an_error(record: Any, fields: Any, status: Any) -> None:
    for each in (record, managed(fields), [{"manager": MODULE_CR_STATUS_MANAGER, "subresource": "status"}]):
        owned = owned_status_fields(each)
        without_owned(status, owned)
        only_owned(status if isinstance(status, dict) else {}, owned)
