"""Why the policy that keeps modules apart is not in force."""

import copy
from typing import Any

import pytest

from kube_runtime import parse_objects
from lifecycle_manager.module_authorization.plan import difference, why_not_applied
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION, module_authorization_as_yaml

SHIPPED = {each.kind: dict(each.document) for each in parse_objects(module_authorization_as_yaml())}
POLICY, BINDING = SHIPPED["ValidatingAdmissionPolicy"], SHIPPED["ValidatingAdmissionPolicyBinding"]


def why_not(policy: Any = POLICY, binding: Any = BINDING) -> str:
    return difference(policy, POLICY) or difference(binding, BINDING)


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value at a path such as `spec.validations.0.expression`."""
    result = copy.deepcopy(document)
    *parents, last = path.split(".")
    place: Any = result
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return result


def test_shipped_policy_that_refuses_the_probe_is_in_force() -> None:
    assert why_not() == ""
    assert why_not_applied("leases", f"ValidatingAdmissionPolicy '{MODULE_AUTHORIZATION}' denied request") == ""


def test_what_the_api_server_fills_in_is_no_difference() -> None:
    policy = changed(POLICY, "spec.matchConstraints.namespaceSelector", {})
    policy = changed(policy, "spec.matchConstraints.objectSelector", {})
    policy = changed(policy, "spec.aFieldOfALaterVersion", "its default")
    policy = changed(policy, "metadata.generation", 1)
    assert why_not({**policy, "status": {"observedGeneration": 1}}) == ""


def test_missing_object_is_named() -> None:
    assert why_not(policy=None) == f"ValidatingAdmissionPolicy {MODULE_AUTHORIZATION} is missing"
    assert why_not(binding=None) == f"ValidatingAdmissionPolicyBinding {MODULE_AUTHORIZATION} is missing"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.failurePolicy", "Ignore"),
        ("spec.matchConditions", [{"name": "nobody", "expression": "false"}]),
        ("spec.matchConstraints.namespaceSelector", {"matchLabels": {"a": "b"}}),
        ("spec.matchConstraints.objectSelector", {"matchLabels": {"a": "b"}}),
        ("spec.matchConstraints.excludeResourceRules", [{"resources": ["*"]}]),
        ("spec.matchConstraints.resourceRules", []),
        ("spec.validations", POLICY["spec"]["validations"][:1]),
    ],
)
def test_policy_that_applies_to_less_is_a_difference(path: str, value: Any) -> None:
    assert why_not(policy=changed(POLICY, path, value)).endswith(f"differs from the shipped one in {path}")


def test_fields_of_list_items_are_compared() -> None:
    rule, expression = "spec.matchConstraints.resourceRules.0.operations", "spec.validations.1.expression"
    assert why_not(policy=changed(POLICY, rule, ["CREATE"])).endswith("resourceRules[0].operations")
    named = "spec.matchConstraints.resourceRules.0.resourceNames"
    assert why_not(policy=changed(POLICY, named, ["a"])).endswith("resourceRules[0].resourceNames")
    assert why_not(policy=changed(POLICY, expression, "true")).endswith("validations[1].expression")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.validationActions", ["Warn"]),
        ("spec.policyName", "another"),
        ("spec.paramRef", {"name": "a"}),
        ("spec.matchResources", {"namespaceSelector": {"matchLabels": {"a": "b"}}}),
    ],
)
def test_binding_that_does_less_is_a_difference(path: str, value: Any) -> None:
    assert f"differs from the shipped one in {path}" in why_not(binding=changed(BINDING, path, value))


def test_probe_that_is_accepted_or_refused_by_something_else_is_reported() -> None:
    assert "a SyncResource in leases was accepted" in why_not_applied("leases", "")
    assert "not refused by the policy: quota exceeded" in why_not_applied("leases", "quota exceeded")
