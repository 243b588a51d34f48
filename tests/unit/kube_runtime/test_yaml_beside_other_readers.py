"""A text means the same to kubectl, to readers of YAML 1.1 and 1.2, and to this one."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as some

from kube_runtime import ManifestInvalid, dump_yaml, load_documents, load_yaml
from kube_runtime.yaml_text import RepeatedKey
from tests.go_programs import build
from tests.unit.kube_runtime.test_yaml_as_kubernetes_reads_it import RECORDED, as_numbers

SPECIAL_TO_1_1 = (
    "yes no on off y n true null ~ = << 2026-01-01 1_000 12:30:45 1:30 0o7 0x1F 017 1e3 1.0 .5 --- ... - ? :"
)
WORDS = some.sampled_from([*(each["yaml"].removeprefix("k: ").strip() for each in RECORDED), *SPECIAL_TO_1_1.split()])
SIGNS = some.text(alphabet=" \n:#-?'\"\\ab01.&*!|>%@`{}[],~\t=+e_é\x7f😀<", max_size=12)
ANY = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
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
PIECES = one_of_texts(
    ["", " ", "  ", "\n", "\n  ", ":", "- ", "#", " #", "'", '"', "|", "&a ", "x", "---\n", "...\n", "\t", "{", "? "],
    ["\ufeff", "<<: "],
)
NOT_TEXT_TO_1_2 = re.compile(
    r"null|Null|NULL|~||true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"
)
"""What the core schema of YAML 1.2 takes for something else."""

Reader = Callable[[str], tuple[list[Any], str]]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Read documents as kubectl does; return them and the error."""
    program = build(Path(__file__).parent / "kubectl_reader", tmp_path_factory.mktemp("kubectl") / "reader")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        given, answers = running.stdin, running.stdout

        def read(text: str) -> tuple[list[Any], str]:
            given.write(json.dumps(text) + "\n")
            given.flush()
            answer = json.loads(answers.readline())
            return answer["documents"], answer.get("error", "")

        yield read
        given.close()


@given(
    some.lists(LINES, max_size=9), some.sampled_from(["\n", "\n", "", "\n\n", "\r\n", "\r", "\n...", "\n---", "\n \t"])
)
@example([], "a: |\n  last line")
@example([], "a: >\n  last line")
@example([], "a: 1\n---\n\ufeffb: 1\nc: 2\n")
@example([], "a: {b: 1, b: 2}\n")
@example([], "a:\n  b: 1\n  <<: {b: 2, c: 3}\n  <<: [{c: 4}, {c: 5}]\n  d: 6\n")
def test_lines_mean_what_they_mean_to_kubectl(kubectl: Reader, lines: list[str], end: str) -> None:
    _assert_same("\n".join(lines) + end, kubectl)


STYLES = some.sampled_from(["|", "|-", "|+", ">", ">-", ">+", "|2", "|2-", "|1+", "|4", "| # c", "|\t", "|-  "])
BLOCK_LINES = some.sampled_from(
    ["text", "text  ", "text\t", "", " ", "  ", "\t", "  more", "# c", "--- x", "a: b", "\x85", "\ufeff"]
)
ENDS = some.sampled_from(
    ["", "\n", "\n\n", "\n...", "\n...\n", "\n---", "\n---\nb: 1", "\n# c", "\n   \n", "\nb: 1", "\r", "\n\t"]
)


@given(
    some.sampled_from(["a: {}", "x:\n- a: {}", "- {}"]),
    STYLES,
    some.lists(BLOCK_LINES, max_size=4),
    ENDS,
    some.booleans(),
)
@example("a: {}", "|", ["text"], "", False)
@example("a: {}", ">+", ["text"], "", True)
def test_block_means_what_it_means_to_kubectl(
    kubectl: Reader, line: str, style: str, lines: list[str], end: str, has_carriage_returns: bool
) -> None:
    """Also at the end of a text: kubectl reads lines, so the last one ends; sigs.k8s.io/yaml takes it as it is."""
    indent = "    " if "x:" in line else "  "
    text = "\n".join([line.format(style), *(f"{indent}{each}" for each in lines)]) + end
    _assert_same(text.replace("\n", "\r\n") if has_carriage_returns else text, kubectl)


@given(some.lists(ESCAPED, max_size=8), some.sampled_from(["a: {}", "{}: a", "- {}"]))
def test_escapes_mean_what_they_mean_to_kubectl(kubectl: Reader, pieces: list[str], line: str) -> None:
    _assert_same(line.replace("{}", f'"{"".join(pieces)}"') + "\n", kubectl)


@given(DOCUMENTS, some.data())
def test_changed_text_means_what_it_means_to_kubectl(
    kubectl: Reader, document: dict[str, Any], data: some.DataObject
) -> None:
    text = dump_yaml(document)
    start = data.draw(some.integers(0, len(text)))
    end = min(len(text), start + data.draw(some.integers(0, 3)))
    _assert_same(text[:start] + data.draw(PIECES) + text[end:], kubectl)


@given(some.lists(DOCUMENTS, min_size=1, max_size=3), some.booleans(), some.sampled_from(["", "\n", " \n"]))
@example([{"a": "\U0001f600 \x85 \u2028 \x7f"}], True, "\n")
def test_json_means_what_it_means_to_kubectl(
    kubectl: Reader, documents: list[dict[str, Any]], is_ascii: bool, between: str
) -> None:
    text = between.join(json.dumps(each, ensure_ascii=is_ascii) for each in documents)
    assert as_numbers(list(load_documents(text))) == as_numbers(documents)
    _assert_same(text, kubectl)


@given(some.lists(DOCUMENTS, min_size=1, max_size=3))
@example([{"a": "\x85\u2028\u2029\r\0\ufeff\x7f\U0001f600"}, {"a": "x\x85\ny"}])
@example([{"a": "\n", "b": "0\n"}, {"a": ["x\n\n", 1, "2"]}, {" \n": "\n x", "\n": " \n"}])
def test_every_reader_reads_what_is_written(kubectl: Reader, documents: list[dict[str, Any]]) -> None:
    text = "---\n".join(map(dump_yaml, documents))
    wanted = as_numbers(documents)
    assert as_numbers(list(load_documents(text))) == wanted
    assert as_numbers(list(yaml.safe_load_all(text))) == wanted
    assert as_numbers(kubectl(text)[0]) == wanted


@given(DOCUMENTS)
def test_text_without_quotes_is_text_to_yaml_1_2(document: dict[str, Any]) -> None:
    plain = [
        each for each in yaml.parse(dump_yaml(document)) if isinstance(each, yaml.ScalarEvent) and each.implicit[0]
    ]
    read = [each.value for each in plain if NOT_TEXT_TO_1_2.fullmatch(each.value)]
    assert all(not isinstance(load_yaml(f"a: {each}")["a"], str) for each in read)
    assert len(read) == _atoms(document)


@pytest.mark.parametrize("length", [129, 990, 1100])
@pytest.mark.parametrize("value", [1, "x\ny", [1, [2]], {"a": {"b": 1}}, {}, []], ids=repr)
def test_long_key_is_read_back(length: int, value: Any) -> None:
    document = {"a": [{"k" * length: value, "z": 1}]}
    assert load_yaml(dump_yaml(document)) == document


@pytest.mark.parametrize(
    "text", ["yes", "on", "y", "~", "1_000", "0o7", "0x1F", "1e3", "12:30:45", "1:30", "2026-01-01", "=", "<<"]
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


def _assert_same(text: str, kubectl: Reader) -> None:
    """Assert that a text means what it means to kubectl, if both take it. What either refuses nobody misreads."""
    theirs, error = kubectl(text)
    repeated: list[RepeatedKey] = []
    try:
        ours = list(load_documents(text, repeated=repeated))
    except ManifestInvalid as refused:
        if not error and not any(each in str(refused) for each in DROPPED):
            raise
        return
    if not error:
        assert as_numbers(_not_empty(ours)) == as_numbers(_not_empty(theirs)), text


DROPPED = ("<document start>", "begins with a byte order mark", "directive", "not allowed", "means nothing", " is no ")
"""How errors begin for what kubectl drops without a word: the rest behind a document; and for tags of YAML 1.1."""


def _not_empty(documents: list[Any]) -> list[Any]:
    return [each for each in documents if each is not None]


def _atoms(value: Any) -> int:
    """Return how many values there are that are no text."""
    if isinstance(value, dict):
        return sum(map(_atoms, value.values()))
    return sum(map(_atoms, value)) if isinstance(value, list) else not isinstance(value, str)
