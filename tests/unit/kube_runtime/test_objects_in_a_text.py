"""Reading Kubernetes objects from text that anybody may have written."""

import pytest

from kube_runtime import InventoryEntry, KubernetesObject, ManifestInvalid, parse_objects

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: here}\n"


def test_documents_become_objects_with_their_index() -> None:
    objects = parse_objects(CONFIG_MAP + "---\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: two}\n")

    assert [(each.api_version, each.kind, each.namespace, each.name, each.index) for each in objects] == [
        ("v1", "ConfigMap", "here", "one", 0),
        ("apps/v1", "Deployment", "", "two", 2),
    ]


def test_list_is_unrolled_and_keeps_the_index_of_its_document() -> None:
    item = "{apiVersion: v1, kind: Secret, metadata: {name: a}}"
    text = f"{CONFIG_MAP}---\napiVersion: v1\nkind: List\nitems:\n- {item}\n"

    assert [(each.name, each.index) for each in parse_objects(text)] == [("one", 0), ("a", 1)]


def test_typed_list_is_unrolled_too() -> None:
    text = "apiVersion: v1\nkind: SecretList\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n"

    assert [each.kind for each in parse_objects(text)] == ["Secret"]


def test_kind_that_only_ends_in_list_is_an_object() -> None:
    (item,) = parse_objects("apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\n")

    assert item.kind == "AllowList"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "no mapping"),
        ("just text", "no mapping"),
        ("kind: ConfigMap\nmetadata: {name: a}\n", "apiVersion is missing"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "kind is missing"),
        ("apiVersion: v1\nkind: ConfigMap\n", "no metadata"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n", "metadata.name is missing"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1}\n", "metadata.name is missing or no text"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: 1}\n", "metadata.namespace is no text"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: [x]}\n", "metadata.labels is no mapping"),
    ],
)
def test_what_is_no_object_is_refused_with_the_index(text: str, message: str) -> None:
    with pytest.raises(ManifestInvalid, match=message) as refused:
        parse_objects(f"{CONFIG_MAP}---\n{text}")

    assert refused.value.document_index == 1


def test_object_that_stands_twice_is_refused() -> None:
    with pytest.raises(ManifestInvalid, match="stands in document 0 already") as refused:
        parse_objects(f"{CONFIG_MAP}---\n{CONFIG_MAP}")

    assert refused.value.document_index == 1


def test_version_is_no_part_of_the_identity() -> None:
    old = InventoryEntry("apps", "v1beta1", "Deployment", "here", "one")
    new = InventoryEntry("apps", "v1", "Deployment", "here", "one")

    assert old.identity == new.identity
    assert (str(new), new.api_version) == ("Deployment here/one (apps/v1)", "apps/v1")


def test_document_that_is_built_in_code_is_checked_too() -> None:
    with pytest.raises(ManifestInvalid):
        KubernetesObject.of({"kind": "ConfigMap"})
