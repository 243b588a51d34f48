"""Where objects are on the API server, whatever their names try to be."""

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import ObjectKey, Resource
from tests.kinds import CONFIG_MAPS


class Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class Thing(msgspec.Struct, frozen=True):
    GROUP: ClassVar[str] = "example.com"
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Thing"
    PLURAL: ClassVar[str] = "things"
    NAMESPACED: ClassVar[bool] = True
    metadata: Metadata


THINGS = Resource.of(Thing)
NODES = Resource.dynamic("", "v1", "Node", "nodes", namespaced=False)


def test_paths() -> None:
    assert THINGS.path() == "/apis/example.com/v1/things"
    assert THINGS.path("here") == "/apis/example.com/v1/namespaces/here/things"
    assert THINGS.path("here", "one", "status") == "/apis/example.com/v1/namespaces/here/things/one/status"
    assert CONFIG_MAPS.path("here", "one") == "/api/v1/namespaces/here/configmaps/one"
    assert NODES.path("ignored", "one") == "/api/v1/nodes/one"
    assert (THINGS.api_version, CONFIG_MAPS.api_version) == ("example.com/v1", "v1")
    assert (THINGS.plural_name, CONFIG_MAPS.plural_name) == ("things.example.com", "configmaps")


def test_name_without_its_namespace_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no namespace"):
        THINGS.path(None, "one")


@given(some.text(max_size=20), some.text(max_size=20))
def test_name_never_leaves_its_place_in_the_path(namespace: str, name: str) -> None:
    try:
        path = THINGS.path(namespace, name)
    except (ValueError, UnicodeEncodeError):
        return
    parts = path.split("/")
    assert parts[:5] == ["", "apis", "example.com", "v1", "namespaces"]
    assert len(parts) == 8
    assert ".." not in parts
    assert "?" not in path
    assert "#" not in path


@pytest.mark.parametrize(
    ("resource", "item"),
    [
        (THINGS, Thing(Metadata("one", "here", "u", "5"))),
        (CONFIG_MAPS, {"metadata": {"name": "one", "namespace": "here", "uid": "u", "resourceVersion": "5"}}),
    ],
)
def test_identity_is_read_from_structs_and_dicts(resource: Resource[Any], item: Any) -> None:
    assert resource.key_of(item) == ObjectKey("here", "one")
    assert (resource.uid_of(item), resource.version_of(item)) == ("u", "5")


def test_what_is_not_there_is_empty() -> None:
    assert NODES.key_of({"metadata": {"name": "n"}}) == ObjectKey("", "n")
    assert THINGS.key_of(Thing(Metadata("one"))) == ObjectKey("", "one")
    assert (NODES.uid_of({"metadata": {}}), THINGS.version_of(Thing(Metadata("x")))) == ("", "")
    assert (str(ObjectKey("a", "b")), str(ObjectKey("", "b"))) == ("a/b", "b")
