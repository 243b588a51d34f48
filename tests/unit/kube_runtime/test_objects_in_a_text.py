"""Reading Kubernetes objects from text that anybody may have written."""

import json

import pytest

from kube_runtime import (
    InventoryEntry,
    KubernetesObject,
    ManifestInvalid,
    once_each,
    parse_manifest,
    parse_objects,
    require_once,
)

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


@pytest.mark.parametrize("name", [".", "..", "a/b", "/", "a%2fb", "%"])
def test_name_that_no_path_has_is_refused_by_name(name: str) -> None:
    for field in ("name", "namespace"):
        metadata = {"name": "one", field: name}
        with pytest.raises(ManifestInvalid, match=rf"invalid metadata\.{field} ") as refused:
            parse_objects(f"{CONFIG_MAP}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {json.dumps(metadata)}\n")
        assert refused.value.document_index == 1
    with pytest.raises(ManifestInvalid, match=r"metadata\.name is missing"):
        parse_manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ''}\n")


def test_items_of_a_typed_list_have_its_kind_where_they_name_none() -> None:
    named = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: c}}"
    items = f"- metadata: {{name: a}}\n- {{metadata: {{name: b}}, data: {{x: y}}}}\n- {named}\n"
    found = parse_objects(f"apiVersion: v1\nkind: ConfigMapList\nitems:\n{items}")
    assert [(each.api_version, each.kind, each.name) for each in found] == [
        ("v1", "ConfigMap", "a"),
        ("v1", "ConfigMap", "b"),
        ("apps/v1", "Deployment", "c"),
    ]
    assert found[0].document == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    for text in (
        "apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n",
        "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {kind: ConfigMap, metadata: {name: a}}\n",
    ):
        with pytest.raises(ManifestInvalid, match="apiVersion is missing"):
            parse_objects(text)


TWICE = f"{CONFIG_MAP}---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  labels: {{x: 1, x: 2}}\n  name: b\n"


def test_last_value_of_a_key_counts_in_a_manifest_with_a_warning() -> None:
    objects, warnings = parse_manifest(TWICE)
    assert (objects[1].name, objects[1].document["metadata"]["labels"]) == ("b", {"x": 2})
    assert warnings == (
        "document 1: line 9: the key 'x' stands there again; the last one counts",
        "document 1: line 10: the key 'name' stands there again; the last one counts",
    )
    with pytest.raises(ManifestInvalid, match="line 9, column 18: the key 'x' stands there twice"):
        parse_objects(TWICE)


def test_keys_of_json_follow_the_same_rule() -> None:
    text = '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "name": "b"}}'
    objects, warnings = parse_manifest(text)
    assert objects[0].name == "b"
    assert warnings == ("document 0: the key 'name' stands there again; the last one counts",)
    with pytest.raises(ManifestInvalid, match="document 0: the key 'name' stands there twice"):
        parse_objects(text)


def test_number_and_length_of_warnings_are_limited() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n"
    _, warnings = parse_manifest(text + f"  {'k' * 900}: 1\n" * 10_000)
    assert warnings[10:] == ("9989 more of this kind",)
    assert sum(map(len, warnings)) < 2_500


def test_first_of_the_same_objects_counts_with_a_warning() -> None:
    plain = CONFIG_MAP.replace(", namespace: here", "")
    objects = parse_manifest(f"{CONFIG_MAP}---\n{plain}data: {{a: second}}\n").objects
    kept, warnings = once_each(objects, lambda each: each.namespace or "here")
    assert kept == objects[:1]
    assert warnings == ("document 1: ConfigMap one (v1) stands in document 0 already; the first one counts",)
    assert once_each(objects, lambda each: each.namespace) == (objects, ())
    with pytest.raises(ManifestInvalid, match=r"document 1: ConfigMap one .* stands in document 0 already"):
        require_once(objects, lambda _: "")


def test_object_without_a_namespace_is_the_one_in_the_default_namespace() -> None:
    plain = CONFIG_MAP.replace(", namespace: here", "")
    assert len(parse_objects(f"{CONFIG_MAP}---\n{plain}")) == 2
    with pytest.raises(ManifestInvalid, match="stands in document 0 already"):
        parse_objects(f"{CONFIG_MAP}---\n{plain}", default_namespace="here")


def test_json_texts_follow_each_other_with_or_without_a_mark() -> None:
    one = '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "NAME"}, "data": {"a": "\\ud83d\\ude00"}}'
    texts = [one.replace("NAME", each) for each in ("a", "b", "c")]
    for text in ("".join(texts), "\n---\n".join(texts), "---\n" + "\n".join(texts)):
        found = parse_objects(text)
        assert [(each.name, each.index) for each in found] == [("a", 0), ("b", 1), ("c", 2)]
        assert found[0].document["data"] == {"a": "\U0001f600"}


def test_version_is_no_part_of_the_identity() -> None:
    old = InventoryEntry("apps", "v1beta1", "Deployment", "here", "one")
    new = InventoryEntry("apps", "v1", "Deployment", "here", "one")

    assert old.identity == new.identity
    assert (str(new), new.api_version) == ("Deployment here/one (apps/v1)", "apps/v1")


def test_document_that_is_built_in_code_is_checked_too() -> None:
    with pytest.raises(ManifestInvalid):
        KubernetesObject.of({"kind": "ConfigMap"})
