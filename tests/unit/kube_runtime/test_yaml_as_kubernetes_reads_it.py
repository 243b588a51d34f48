"""YAML means what it means to kubectl: its library, sigs.k8s.io/yaml 1.6.0, gave the recorded answers."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import ManifestInvalid, TextTooLong, YamlLimits, dump_yaml, load_documents, load_yaml, stored_size
from tests.cpu_time import takes_at_most

RECORDED = json.loads((Path(__file__).parent / "kubernetes_yaml.json").read_text())
TEXTS = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
SCALARS = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-(2**63), 2**63 - 1),
    some.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    some.sampled_from([each["yaml"].removeprefix("k: ").strip() for each in RECORDED]),
)
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.one_of(some.lists(inner, max_size=4), some.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["yaml"])
def test_text_means_what_it_means_to_kubectl(recorded: dict[str, Any]) -> None:
    if recorded.get("refused"):
        with pytest.raises(ManifestInvalid):
            load_yaml(recorded["yaml"])
    else:
        assert as_numbers(load_yaml(recorded["yaml"])) == as_numbers(recorded["json"])


def test_same_object_is_written_as_the_same_text_whatever_the_order_of_its_keys() -> None:
    first = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "b": "2"}}
    second = {"data": {"b": "2", "x": "1"}, "metadata": {"name": "a"}, "kind": "ConfigMap", "apiVersion": "v1"}

    assert dump_yaml(first) == dump_yaml(second)
    assert dump_yaml(first).startswith("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n")


def test_identity_stands_first_and_status_last() -> None:
    text = dump_yaml({"status": {}, "zone": 1, "spec": {}, "metadata": {}, "kind": "K", "apiVersion": "v1"})

    assert [line.split(":")[0] for line in text.splitlines()] == [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "zone",
        "status",
    ]


def test_lines_stay_lines() -> None:
    assert dump_yaml({"data": {"script": "first\nsecond\n"}}) == "data:\n  script: |\n    first\n    second\n"


def test_merged_keys_give_way_to_those_that_stand_there() -> None:
    text = "base: &base {a: 1, b: 1}\nother: &other {b: 2, c: 2}\nall:\n  <<: [*base, *other]\n  a: 3\n"

    assert load_yaml(text)["all"] == {"a": 3, "b": 1, "c": 2}


def test_key_that_stands_twice_is_refused_with_its_line() -> None:
    with pytest.raises(ManifestInvalid, match="document 1: line 4, column 1: the key 'name' stands there twice"):
        list(load_documents("a: 1\n---\nname: x\nname: y\n"))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("[" * 200 + "]" * 200, YamlLimits()),
        ("[" * 100_000, YamlLimits()),
        ("x" * 101, YamlLimits(bytes=100)),
        ("---\na: 1\n" * 4, YamlLimits(documents=3)),
        ("[" + "1," * 20 + "]", YamlLimits(nodes=20)),
        ("- &a x\n" + "- *a\n" * 11, YamlLimits(aliases=10)),
        ("a: &a [x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n", YamlLimits(nodes=30)),
    ],
    ids=["depth", "depth of an open text", "bytes", "documents", "values", "aliases", "values behind aliases"],
)
def test_text_beyond_a_limit_is_refused(text: str, limits: YamlLimits) -> None:
    with pytest.raises(ManifestInvalid):
        list(load_documents(text, limits))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "a: *nothing",
        "!!python/object/apply:os.system [ls]",
        "? [a]\n: b",
        "a: \x07",
        "a: .nan",
        "a: {",
        b"\xff\xfe\xfa",
    ],
)
def test_text_that_means_nothing_to_kubernetes_is_refused(text: str | bytes) -> None:
    with pytest.raises(ManifestInvalid):
        load_yaml(text)


@given(some.one_of(some.text(max_size=200), some.binary(max_size=200)))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    with suppress(ManifestInvalid):
        json.dumps(list(load_documents(text)))


def test_one_document_is_asked_for_and_two_are_refused() -> None:
    assert load_yaml("") is None
    with pytest.raises(ManifestInvalid, match="more than one document"):
        load_yaml("a: 1\n---\nb: 2\n")


def as_numbers(value: Any) -> Any:
    """Return the value with numbers as JSON knows them: 1 and 1.0 are the same, and large ones are inexact."""
    if isinstance(value, dict):
        return {key: as_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_numbers(each) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return value


@given(some.dictionaries(TEXTS, VALUES, max_size=5))
def test_text_stops_at_its_limit(document: dict[str, Any]) -> None:
    text = dump_yaml(document)
    size = stored_size(text)
    assert dump_yaml(document, max_bytes=size) == text
    with pytest.raises(TextTooLong):
        dump_yaml(document, max_bytes=size - 1)


def test_nested_document_does_not_become_a_text_of_megabytes() -> None:
    """100 levels around 1,000 values are a few kB of JSON, and 200 bytes of indentation for each value."""
    value: Any = [1] * 100_000
    for _ in range(100):
        value = {"a": value}

    def dump() -> None:
        with pytest.raises(TextTooLong):
            dump_yaml(value, max_bytes=100_000)

    assert takes_at_most(0.2, dump)


@pytest.mark.parametrize(
    "text",
    ["{0}: 1\n{0}: 2\n", "a: *{0}\n", "a: !{0} b\n", "a: !!int {0}\n", "a: &{0} [*{0}]\n", '"{0}": 1\n"{0}": 2\n'],
)
def test_what_a_message_quotes_is_short(text: str) -> None:
    with pytest.raises(ManifestInvalid) as refused:
        load_yaml(text.format("x" * 900_000))
    assert len(str(refused.value)) < 2_000
