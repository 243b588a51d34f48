"""Decoded objects have equal strings once, and are equal to what was sent."""

from typing import Any

import msgspec
import pytest

from kube_runtime.client.compacting import MAX_CHARACTERS
from kube_runtime.client.decoding import decoding_for
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager_api import Kyma, Manifest

DOCUMENTS: dict[type[Any], dict[str, Any]] = {
    Manifest: {
        "metadata": {
            "name": "api",
            "namespace": "kcp-system",
            "labels": {"operator.kyma-project.io/kyma-name": "a-kyma-with-a-name"},
            "annotations": {},
            "creationTimestamp": "2026-11-01T12:00:00Z",
            "finalizers": ["declarative.kyma-project.io/finalizer"],
        },
        "spec": {"remote": True, "install": {"name": "raw-manifest", "source": {"type": "oci-ref", "ref": "some-ref"}}},
        "status": {
            "state": "Ready",
            "conditions": [
                {"type": "Installation", "status": "True", "reason": "Ready now", "message": "All is there"}
            ],
        },
    },
    Kyma: {
        "metadata": {"name": "a-kyma-with-a-name"},
        "spec": {"channel": "regular", "modules": [{"name": "api-gateway"}]},
        "status": {"modules": [{"name": "api-gateway", "manifest": {"kind": "Manifest of a Kyma", "metadata": {}}}]},
    },
    Secret: {"metadata": {"name": "kubeconfig-of-a-kyma"}, "data": {"config": "x" * 1000}},
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_equal_objects_have_the_same_strings(kind: type[Any]) -> None:
    document = msgspec.json.encode(DOCUMENTS[kind])
    first, second = (decoding_for(kind).object(document) for _ in range(2))
    plain = msgspec.json.decode(document, type=kind)
    assert first == second == plain
    assert msgspec.json.encode(first.metadata) == msgspec.json.encode(plain.metadata)
    pairs = list(zip(_strings(first), _strings(second), strict=True))
    assert pairs
    assert [one for one, other in pairs if one is not other and len(one) <= MAX_CHARACTERS] == []


def test_long_strings_such_as_credentials_are_not_kept_beside_their_object() -> None:
    document = msgspec.json.encode(DOCUMENTS[Secret])
    first, second = (decoding_for(Secret).object(document) for _ in range(2))
    assert first.data["config"] is not second.data["config"]


def _strings(value: Any) -> list[str]:
    """Return the strings of an object in their order, but those that are values of an enumeration."""
    match value:
        case str():
            return [value] if type(value) is str else []
        case msgspec.Struct():
            return [text for name in value.__struct_fields__ for text in _strings(getattr(value, name))]
        case dict():
            return [text for pair in value.items() for each in pair for text in _strings(each)]
        case tuple() | list():
            return [text for each in value for text in _strings(each)]
        case _:
            return []
