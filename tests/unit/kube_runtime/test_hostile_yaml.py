"""Short texts that would become long, deep or slow."""

import threading

import msgspec
import pytest

from kube_runtime import KindUnknown, ManifestInvalid, YamlLimits, load_documents, load_yaml, parse_aside, parse_objects
from kube_runtime.parsing import MAX_INLINE_BYTES
from tests.cpu_time import is_linear


def aliases_of(size: int, number: int = 1_000) -> str:
    return f"a: &a {'x' * size}\nb: [{','.join(['*a'] * number)}]\n"


def test_aliases_may_not_make_23_kb_to_20_mb() -> None:
    text = aliases_of(20_000)
    assert len(text) < 24_000
    with pytest.raises(ManifestInvalid, match="longer by more than 1048576 bytes"):
        load_yaml(text)


def test_bytes_behind_aliases_of_aliases_count() -> None:
    text = (
        "a: &a "
        + "x" * 1_000
        + "\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: {"
        + "".join(f"k{number}: *b," for number in range(200))
    )
    with pytest.raises(ManifestInvalid, match="longer by more than"):
        load_yaml(text + "}\n")


def test_keys_and_merges_behind_aliases_count() -> None:
    for use in ("[" + "{? *a : 1}," * 90 + "]", "[" + "{<<: *m}," * 90 + "]"):
        with pytest.raises(ManifestInvalid, match="longer by more than"):
            load_yaml(f"a: &a {'x' * 20_000}\nm: &m {{k: {'y' * 20_000}}}\nb: {use}\n")


def test_few_aliases_of_ordinary_texts_are_read() -> None:
    document = load_yaml(aliases_of(900))
    assert len(msgspec.json.encode(document)) < 1024 * 1024


def test_depth_behind_an_alias_counts() -> None:
    chain = "a0: &a0 " + "[" * 90 + "]" * 90 + "\n"
    for number in range(1, 900):
        chain += f"a{number}: &a{number} [[[[[[[[[[*a{number - 1}]]]]]]]]]]\n"
    with pytest.raises(ManifestInvalid, match="nested deeper than 100 levels"):
        load_yaml(chain)
    assert load_yaml("a: &a [[1]]\nb: [*a]\n", YamlLimits(depth=5))


def test_merges_take_linear_time() -> None:
    assert is_linear(load_yaml, lambda size: "a:\n" + "".join(f"  <<: {{k{n}: 1}}\n" for n in range(size)), size=1_000)
    assert len(load_yaml("a:\n  <<: {b: 1}\n  <<: {c: 1}\n")["a"]) == 2


@pytest.mark.parametrize("text", ["1" * 5_000, "-" + "1" * 5_000, "1_" * 5_000 + "1"])
def test_number_of_any_length_is_read(text: str) -> None:
    assert load_yaml(f"a: {text}\n") == {"a": text}
    with pytest.raises(ManifestInvalid):
        load_yaml(f"a: !!int {text}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "nested deeper than 100 levels"),
        ('[{"a":' * 150 + "1" + "}]" * 150, "nested deeper than 100 levels"),
        ("[" + "1," * 1_000_001 + "1]", "more than 1000000 values"),
        ("{}" * 5_001, "more than 5000 documents"),
        ('{"a": 1e400}', "too large for a number"),
        ('{"a": ' + "9" * 5_000 + "}", "too large for a number"),
        ('{"a": "\\ud800"}', "invalid Unicode character"),
        ('{"a": 1} x', "document 1"),
        ('{"a": [1, 2}', "did not find expected"),
    ],
    ids=["depth", "depth of both", "values", "documents", "number", "digits", "half a pair", "rest", "bracket"],
)
def test_json_is_within_the_limits_too(text: str, message: str) -> None:
    with pytest.raises(ManifestInvalid, match=message):
        list(load_documents(text))


@pytest.mark.parametrize("text", ["a: 1\n\ufeff---\nb: 1\n", "a: 1\n...\n\ufeff---\nb: 1\n"])
def test_error_names_a_byte_order_mark(text: str) -> None:
    with pytest.raises(ManifestInvalid, match=r"document [01]: .* begins with a byte order mark"):
        list(load_documents(text))


async def test_large_text_is_parsed_outside_the_event_loop() -> None:
    def parse(text: str) -> int:
        parse_objects(text)
        return threading.get_ident()

    small = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"
    large = small + f"data: {{a: {'x' * MAX_INLINE_BYTES}}}\n"
    assert await parse_aside(len(small), parse, small) == threading.get_ident()
    assert await parse_aside(len(large), parse, large) != threading.get_ident()
    with pytest.raises(ManifestInvalid):
        await parse_aside(len(large), parse, large + "]")


def test_message_about_a_kind_of_any_length_is_short() -> None:
    assert len(str(KindUnknown("v" * 300_000, "K" * 300_000))) < 3_000
