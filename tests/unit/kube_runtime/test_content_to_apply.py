"""What is left out of a document before it is applied."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.apply.documents import content_to_apply

TEXTS = st.dictionaries(st.sampled_from("abc"), st.text())
OTHERS = st.recursive(
    st.none() | st.integers() | st.text(), lambda below: st.lists(below) | st.dictionaries(st.text(), below)
)


@given(data=TEXTS, texts=TEXTS)
def test_texts_of_a_secret_are_its_data_as_the_server_has_it(data: dict[str, str], texts: dict[str, str]) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    found = content_to_apply("", "Secret", {"metadata": {}, "data": encoded, "stringData": texts})
    assert {key: base64.b64decode(value).decode() for key, value in found["data"].items()} == {**data, **texts}
    assert "stringData" not in found


@given(value=OTHERS)
@pytest.mark.parametrize(
    ("group", "kind", "field"),
    [
        ("", "Secret", "stringData"),
        ("", "Secret", "data"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "webhooks"),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "spec"),
        ("apiregistration.k8s.io", "APIService", "spec"),
    ],
)
def test_content_of_any_form_is_left_to_the_server_to_judge(group: str, kind: str, field: str, value: Any) -> None:
    found = content_to_apply(group, kind, {"metadata": {}, field: value, "status": {}})
    assert "status" not in found
    assert found["metadata"] == {}


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_rules_of_a_role_that_aggregates_nothing_are_applied(kind: str) -> None:
    document: dict[str, Any] = {"metadata": {}, "rules": [], "aggregationRule": None}
    assert content_to_apply("rbac.authorization.k8s.io", kind, document) == document


def test_stored_object_of_the_same_kind_in_another_group_keeps_its_content() -> None:
    document = {"metadata": {}, "stringData": {"a": "b"}}
    assert content_to_apply("example.com", "Secret", document) == document
