"""What is said of the status of a Module CR is what Lifecycle Manager's write of it comes to."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kyma_module_manager.project.schema import violations
from kyma_module_manager.project.status import REASONS, status_notices
from lifecycle_manager.contract.verdict import Verdict
from lifecycle_manager.module_cr_status.schema import schema_in
from lifecycle_manager.module_cr_status.status import fields_of
from tests import builders

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
CONDITIONS = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
FIELDS = {"state": STRING, "observedGeneration": INTEGER, "conditions": CONDITIONS}


def crd(status: Mapping[str, Any] | None, *, subresource: bool = True) -> dict[str, Any]:
    properties = {} if status is None else {"status": {"type": "object", **status}}
    version = {
        "name": "v1",
        "served": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    if subresource:
        version["subresources"] = {"status": {}}
    return {"spec": {"group": "example.com", "names": {"kind": "Thing", "plural": "things"}, "versions": [version]}}


def states(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def condition(*required: str, **properties: Any) -> dict[str, Any]:
    item = {"type": "object", "required": list(required), "properties": properties}
    return {"type": "array", "items": item}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"properties": FIELDS}, ()),
        ({"x-kubernetes-preserve-unknown-fields": True}, ()),
        ({"properties": {**FIELDS, "state": states("Ready", "Processing", "Error", "Deleting")}}, ()),
        ({"properties": {**FIELDS, "state": states("Ready", "Processing", "Warning", "Deleting")}}, ()),
        ({"properties": {**FIELDS, "state": states("Deleting", "Ready", "Warning")}, "required": ["state"]}, ()),
        ({"properties": {"state": STRING}}, ("Thing v1: the status has no observedGeneration, conditions",)),
        ({"properties": FIELDS, "required": ["state"]}, ()),
        ({"properties": {**FIELDS, "served": STRING}, "required": ["served"]}, ("take served out of status.required",)),
        (
            {"properties": {**FIELDS, "state": states("Ready", "Error")}, "required": ["state"]},
            ("add Processing to the enum of status.state", "add Deleting to the enum of status.state"),
        ),
        (
            {"properties": {**FIELDS, "state": states("Ready", "Error")}},
            ("the enum of status.state has no Processing, Deleting",),
        ),
        (
            {"properties": {**FIELDS, "conditions": condition("type", type=states("Installed"))}},
            ("status.conditions[0].type is 'Ready', not one of ['Installed']",),
        ),
        (
            {"properties": {**FIELDS, "conditions": condition("type", "severity", type=STRING, severity=STRING)}},
            ("status.conditions[0] has no severity",),
        ),
        ({"properties": {**FIELDS, "state": INTEGER}}, ("status.state is str, not integer",)),
        (None, ("the status has no state, observedGeneration, conditions",)),
    ],
)
def test_notice_names_what_has_to_be_changed_in_the_crd(
    status: Mapping[str, Any] | None, said: tuple[str, ...]
) -> None:
    notices = "\n".join(status_notices([crd(status)]))

    assert all(each in notices for each in said)
    assert bool(said) is bool(notices)
    assert ("can't carry" in notices) is is_refused(crd(status), status or {})


def is_refused(definition: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Tell whether an API server refuses one of the answers that Lifecycle Manager makes for the CRD."""
    schema = schema_in(msgspec.json.encode(definition), "v1")
    verdicts = [Verdict(state, reason, "why", 7) for state, reason in REASONS.items()]
    answers = [fields_of(each, schema, known=(), now=builders.NOW) for each in verdicts]
    return any(any(violations(each, {"type": "object", **status})) for each in answers)


def test_required_field_that_the_function_returns_needs_no_change() -> None:
    definition = crd({"properties": {**FIELDS, "served": STRING}, "required": ["state", "served"]})
    assert list(status_notices([definition], {"served"})) == []


def test_crd_without_the_subresource_is_named() -> None:
    notice, why = status_notices([crd({"properties": FIELDS}, subresource=False)])
    assert notice == "Thing v1: there is no status: add subresources: {status: {}}"
    assert "Events alone" in why


def test_kinds_that_lack_the_same_share_a_line() -> None:
    lines = list(status_notices([crd({"properties": {"state": STRING}}), crd({"properties": {"state": STRING}})]))
    assert lines[0] == "Thing v1, Thing v1: the status has no observedGeneration, conditions"
    assert len(lines) == 2


def test_version_that_is_not_served_is_passed_over() -> None:
    definition = crd(None)
    definition["spec"]["versions"][0]["served"] = False
    assert list(status_notices([definition])) == []
