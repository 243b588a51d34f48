"""Texts are written as libyaml writes them, and read line by line as it reads them: PyYAML is the oracle."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as some

from kube_runtime import ManifestInvalid, YamlLimits, dump_yaml
from kube_runtime.yaml_lines import Unusual, read_lines
from kube_runtime.yaml_scalars import is_plain_text
from kube_runtime.yaml_text import read_events

RECORDED = json.loads((Path(__file__).parent / "kubernetes_yaml.json").read_text())
FIRST = {name: rank for rank, name in enumerate(("apiVersion", "kind", "metadata", "name", "namespace", "spec"))}
SPECIAL_TO_1_1 = (
    "yes no on off y n true null ~ = << 2026-01-01 1_000 12:30:45 1:30 0o7 0x1F 017 1e3 1.0 .5 --- ... - ? :"
)
WORDS = some.sampled_from([*(each["yaml"].removeprefix("k: ").strip() for each in RECORDED), *SPECIAL_TO_1_1.split()])
SIGNS = some.text(alphabet=" \n:#-?'\"\\ab01.&*!|>%@`{}[],~\t=+e_é\x7f😀<", max_size=12)
ANY = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029\r"), max_size=20)
TEXTS = some.one_of(ANY, WORDS, SIGNS, some.builds("{}{}{}".format, WORDS, SIGNS, WORDS))
NUMBERS = some.one_of(some.integers(), some.floats(allow_nan=False, allow_infinity=False))
VALUES = some.recursive(
    some.one_of(some.none(), some.booleans(), NUMBERS, TEXTS),
    lambda inner: some.one_of(some.lists(inner, max_size=4), some.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
DOCUMENTS = some.dictionaries(TEXTS, VALUES, min_size=1, max_size=4)


def one_of_texts(*groups: list[str]) -> some.SearchStrategy[str]:
    return some.one_of(*map(some.sampled_from, groups))


KEYS = one_of_texts(
    ["a", "b", "cd", "name", "'a'", '"b"', '"a\\n"', "<<", '"<<"', "1", "true", "~", "a b", "'it''s'", "é", "a:b"],
    ["? a", "-", "- - b", "-   c", "a#", "a:", "k" * 1030],
)
SCALARS = one_of_texts(
    ["", "x", "1", "true", "~", "{}", "[]", "'q'", "a b c", "http://x:80/a", "|", "|-", "|+", "|2", "|2-", "|1", ">"],
    ['"d\\te"', '"\\x41\\u0042\\U0001F600"', '"\\q"', '"\\ud800"', "0x1F", "0644", "1_000", "1.0", "1e3", ".nan", "-1"],
    ["&x y", "*x", "!!int 3", "!!str 3", "[1, 2]", "{a: b}", "a # c", "# c", "- z", "x: y", "x:", "--- a", "'a' b"],
    ["@", "%", "12:30", "2026-01-01", "=", "<<", "x ", " y", "a\tb", "9" * 23, "😀", "\ufeff", '"x'],
)
BETWEEN = one_of_texts(
    [
        "---",
        "...",
        "# c",
        "  # c",
        "",
        " ",
        "    ",
        "--- ",
        "---x",
        "%YAML 1.1",
        "text",
        "  text",
        "    deep",
        "   odd",
    ],
    ["\t", "-", "? k", ": v", "  : v", "'multi", "line'"],
)
INDENTS = some.sampled_from(["", "", "", "  ", "  ", "    ", " ", "   "])
USUAL = some.builds(
    "{}{}{}: {}".format,
    some.sampled_from(["", "", "  ", "    "]),
    some.sampled_from(["", "", "- "]),
    some.sampled_from(["a", "b", "c", "d", "'e'"]),
    some.sampled_from(["x", "1", "{}", "'q'", "|", "|2-", '"\\t"', "~"]),
)
LINES = some.one_of(
    USUAL,
    some.builds("{}{}:".format, INDENTS, KEYS),
    some.builds("{}{}{}: {}".format, INDENTS, some.sampled_from(["", "- ", "- - ", "-  "]), KEYS, SCALARS),
    some.builds("{}- {}".format, INDENTS, SCALARS),
    some.builds("{}{}".format, INDENTS, SCALARS),
    BETWEEN,
)
ESCAPED = one_of_texts(
    [
        "\\\\",
        "\\t",
        "\\n",
        '\\"',
        "\\0",
        "\\e",
        "\\N",
        "\\P",
        "\\x41",
        "\\x5C",
        "\\x01",
        "\\u0042",
        "\\udc00",
        "\\U0001F600",
    ],
    ["t", "x41", '"', "a", "\\", " ", "\\q", "\\/", "\\_", "\\U00110000", "u0042", "\\xZZ"],
)
LIMITS = YamlLimits(documents=2, depth=6, nodes=200)


@given(DOCUMENTS)
@example({"a": "\n", "b": "0\n"})
@example({"a": ["x\n\n", 1, "2"]})
def test_text_is_that_of_libyaml(document: dict[str, Any]) -> None:
    if not _has_unusual_key(document):
        assert dump_yaml(document) == _written_by_libyaml(document)


@given(some.lists(DOCUMENTS, min_size=1, max_size=3))
def test_what_is_written_is_read_line_by_line(documents: list[dict[str, Any]]) -> None:
    _assert_same("---\n".join(map(dump_yaml, documents)), YamlLimits(), is_usual=True)


@given(some.lists(LINES, max_size=9), some.sampled_from(["\n", "\n", "", "\n\n"]))
def test_lines_mean_what_they_mean_to_libyaml(lines: list[str], end: str) -> None:
    _assert_same("\n".join(lines) + end, LIMITS)


@given(some.lists(ESCAPED, max_size=8), some.sampled_from(["a: {}", "{}: a", "- {}"]))
def test_escapes_mean_what_they_mean_to_libyaml(pieces: list[str], line: str) -> None:
    _assert_same(line.replace("{}", f'"{"".join(pieces)}"') + "\n", LIMITS)


@given(DOCUMENTS, some.data())
def test_changed_text_means_what_it_means_to_libyaml(document: dict[str, Any], data: some.DataObject) -> None:
    text = dump_yaml(document)
    start = data.draw(some.integers(0, len(text)))
    end = min(len(text), start + data.draw(some.integers(0, 3)))
    pieces = [
        "",
        " ",
        "  ",
        "\n",
        "\n  ",
        ":",
        "- ",
        "#",
        " #",
        "'",
        '"',
        "|",
        "&a ",
        "x",
        "---\n",
        "...\n",
        "\t",
        "{",
        "? ",
    ]
    _assert_same(text[:start] + data.draw(some.sampled_from(pieces)) + text[end:], LIMITS)


@pytest.mark.parametrize(
    "text", ["...\n", "a: 1\n...\nb: 1\n", "a: |\n  b\n \nc: 1\n", "a: b\n c: d\n", "? a\n : b\n", "k" * 1030 + ": 1\n"]
)
def test_text_with_a_meaning_that_is_hard_to_tell_is_left_to_libyaml(text: str) -> None:
    with pytest.raises(Unusual):
        read_lines(text, documents=5, depth=100, nodes=1_000)


@pytest.mark.parametrize("length", [129, 990, 1100])
@pytest.mark.parametrize("value", [1, "x\ny", [1, [2]], {"a": {"b": 1}}, {}, []], ids=repr)
def test_long_key_is_read_back(length: int, value: Any) -> None:
    document = {"a": [{"k" * length: value, "z": 1}]}
    text = dump_yaml(document)
    assert list(read_events(text, YamlLimits())) == [document]
    _assert_same(text, YamlLimits(), is_usual=True)


@pytest.mark.parametrize(
    "text", ["yes", "on", "y", "~", "1_000", "0o7", "0x1F", "1e3", "12:30:45", "2026-01-01", "=", "<<"]
)
def test_text_that_some_reader_would_take_for_something_else_is_quoted(text: str) -> None:
    assert (
        dump_yaml({"a": text, text: "b"}).count(f'"{text}"') + dump_yaml({"a": text, text: "b"}).count(f"'{text}'") == 2
    )


def test_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="a set is no value of JSON"):
        dump_yaml({"a": {1, 2}})
    with pytest.raises(UnicodeEncodeError):
        dump_yaml({"a": "\ud800"})


def _assert_same(text: str, limits: YamlLimits, *, is_usual: bool = False) -> None:
    """Assert that a text is read line by line as by events, or left to them."""
    try:
        found = read_lines(text, documents=limits.documents, depth=limits.depth, nodes=limits.nodes)
    except Unusual:
        assert not is_usual, text
        return
    try:
        expected = list(read_events(text, limits))
    except ManifestInvalid as error:
        raise AssertionError(f"{text!r} is {found!r}, and should be refused: {error}") from None
    assert _typed(found) == _typed(expected), text


def _typed(value: Any) -> Any:
    """Return a value in which 1, 1.0 and true differ, and so do mappings with another order of their keys."""
    if isinstance(value, dict):
        return [(key, _typed(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [_typed(each) for each in value]
    return type(value), value


def _has_unusual_key(value: Any) -> bool:
    """Tell whether there is a key that libyaml writes with a question mark although no reader needs it."""
    if isinstance(value, dict):
        return any("\n" in key or len(key.encode()) > 120 or _has_unusual_key(each) for key, each in value.items())
    return isinstance(value, list) and any(map(_has_unusual_key, value))


class _Dumper(yaml.CSafeDumper):
    """Writes the order of keys and the quotes of `dump_yaml`, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: Any, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if is_plain_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # type: ignore[no-any-return]


_Dumper.add_representer(str, _text_node)


def _written_by_libyaml(document: dict[str, Any]) -> str:
    text: str = yaml.dump(
        _ordered(document),
        Dumper=_Dumper,
        allow_unicode=True,
        width=1_000_000,
        sort_keys=False,
        default_flow_style=False,
    )
    return text


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(FIRST) + 1 if key == "status" else FIRST.get(key, len(FIRST)), key))
        return {key: _ordered(value[key]) for key in keys}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
