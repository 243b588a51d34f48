"""Objects of a cache have equal strings and small parts once, and are equal to what was decoded."""

import json
from typing import Any

import msgspec
import pytest

from kube_runtime.client.decoding import decoding_for
from kube_runtime.informer.sharing import MAX_CHARACTERS, MAX_TEXT_BYTES, sharer_for
from kube_runtime.pool import Pool
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
    first, second = _decoded(kind), _decoded(kind)
    share = sharer_for(kind)
    assert share(first) is first
    share(second)
    assert first == second == _decoded(kind)
    assert msgspec.json.encode(first.metadata) == msgspec.json.encode(_decoded(kind).metadata)
    pairs = list(zip(_strings(first), _strings(second), strict=True))
    assert pairs
    assert [one for one, other in pairs if one is not other and len(one) <= MAX_CHARACTERS] == []


def test_equal_objects_have_the_same_times() -> None:
    first, second = (sharer_for(Manifest)(_decoded(Manifest)) for _ in range(2))
    assert first.metadata.creation_timestamp is second.metadata.creation_timestamp
    assert first.metadata.creation_timestamp == _decoded(Manifest).metadata.creation_timestamp


def test_equal_parts_of_different_objects_are_kept_once() -> None:
    first = sharer_for(Manifest)(_decoded(Manifest))
    second = sharer_for(Manifest)(_decoded(Manifest, name="nats"))
    assert first.status.conditions is second.status.conditions
    assert first.metadata.finalizers is second.metadata.finalizers
    assert first.spec.install.source is second.spec.install.source
    assert first.metadata is not second.metadata
    assert second.metadata.name == "nats"


def test_large_undecoded_texts_are_left_alone() -> None:
    source = {"ref": "x" * MAX_TEXT_BYTES}
    first, second = (sharer_for(Manifest)(_decoded(Manifest, source=source)) for _ in range(2))
    assert first.spec.install.source is not second.spec.install.source
    assert first == second


def test_long_strings_such_as_credentials_are_left_alone() -> None:
    secret = _decoded(Secret)
    before = secret.data["config"]
    assert sharer_for(Secret)(secret).data["config"] is before


def test_strings_that_only_one_object_has_are_not_kept_for_ever() -> None:
    strings: Pool[str] = Pool(max_values=100)
    for number in range(1000):
        strings.shared(f"only once {number}")
        assert len(strings) < 100
    first, second = ("the same " + str(number) for number in (1, 1))
    assert strings.shared(first) is strings.shared(second)


def test_dict_is_left_alone() -> None:
    document = {"metadata": {"name": "a"}}
    assert sharer_for(dict)(document) is document


def _decoded(kind: type[Any], *, name: str = "", source: dict[str, str] | None = None) -> Any:
    document = json.loads(json.dumps(DOCUMENTS[kind]))
    if name:
        document["metadata"]["name"] = name
    if source:
        document["spec"]["install"]["source"] = source
    return decoding_for(kind).object(msgspec.json.encode(document))


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
