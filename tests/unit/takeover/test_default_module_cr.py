"""A default Module CR without a name keeps the one that the former version gave it."""

from typing import Any

import msgspec
import pytest

from lifecycle_manager.module_catalog.manifests import named_as_before

HELD = {"apiVersion": "a/v1", "kind": "Sample", "metadata": {"name": "kyma-sample-1", "namespace": "kyma-system"}}


def raw(document: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


def named(wanted: Any, held: Any) -> Any:
    return msgspec.json.decode(named_as_before(raw(wanted), raw(held)))


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {"labels": {"a": "b"}}}], ids=str)
def test_name_is_kept_where_the_template_says_none(metadata: dict[str, Any]) -> None:
    found = named({"apiVersion": "a/v1", "kind": "Sample", **metadata, "spec": {"x": 1}}, HELD)
    assert found["metadata"] == {**(metadata.get("metadata") or {}), **HELD["metadata"]}  # type: ignore[dict-item]
    assert found["spec"] == {"x": 1}


@pytest.mark.parametrize(
    ("wanted", "held"),
    [
        ({"apiVersion": "a/v1", "kind": "Sample", "metadata": {"name": "mine"}}, HELD),
        ({"apiVersion": "a/v1", "kind": "Other"}, HELD),
        ({"apiVersion": "a/v1", "kind": "Sample"}, {"apiVersion": "a/v1", "kind": "Sample"}),
        ({"apiVersion": "a/v1", "kind": "Sample"}, None),
        (None, HELD),
    ],
    ids=str,
)
def test_otherwise_it_is_as_the_template_says(wanted: Any, held: Any) -> None:
    assert named(wanted, held) == wanted
