"""YAML and JSON as Kubernetes reads them, with limits, as the text may come from anybody.

Values are built from the events of libyaml, which Kubernetes' own reader derives from, so a text is never expanded
beyond its limits: the values, bytes and depth behind an alias count each time it is used. JSON is read as JSON: YAML
does not know all of its strings.

What a plain scalar means is said by one Go library, by the rules neither of YAML 1.1 nor of 1.2: `yes`, `on` and `y`
are true, `0644` is octal, `1e3` is a number and `12:30:45` and dates are text. A file mode or a switch that is read
otherwise would be another object than kubectl applies.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from kube_runtime.client.json_limits import JsonLimits, check_json
from kube_runtime.exceptions import ManifestInvalid, ResponseTooLarge

_TAG = "tag:yaml.org,2002:"
_BYTES_PER_NODE = 3  # quotes and a comma, or brackets and a comma
_TEXT_TAGS = frozenset({"!", f"{_TAG}str"})
_BOM = "\ufeff"
_LATER_BOM = re.compile(rf"^(---[ \t]*\r?\n){_BOM}", re.MULTILINE)
_BEFORE_JSON = re.compile(rf"{_BOM}?[ \t\r\n]*(?:---[ \t\r\n]+)?")

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_MAY_BE_NUMBER = frozenset("0123456789+-.")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}($|[Tt ][0-9])")
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?P<octal>0[0-7]+)|0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_WHOLE_BELOW = 1e21


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlLimits:
    """How much a text may hold. `nodes` counts every value, those behind an alias at each use.

    `alias_bytes` is how much longer all aliases together may make the text.
    """

    bytes: int = 16 * 1024 * 1024
    documents: int = 5_000
    depth: int = 100
    nodes: int = 1_000_000
    aliases: int = 1_000
    alias_bytes: int = 1024 * 1024


DEFAULT_LIMITS = YamlLimits()


class RepeatedKey(NamedTuple):
    """A key that stands in a mapping again, so that its last value counts. JSON has no lines."""

    document: int
    line: int | None
    key: str

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return f"document {self.document}: {where}the key {self.key[:100]!r} stands there again; the last one counts"


def load_yaml(text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS) -> Any:
    """Return the value of a text that holds one document (None if it is empty). Raises ManifestInvalid."""
    documents = list(load_documents(text, limits))
    if len(documents) > 1:
        raise ManifestInvalid(1, "there is more than one document")
    return documents[0] if documents else None


def load_documents(
    text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS, repeated: list[RepeatedKey] | None = None
) -> Iterator[Any]:
    """Yield the value of each document. Raises ManifestInvalid at the first that is broken or too large.

    A key that stands twice in a mapping is an error, but with a list to which it is added: then the last one counts.
    """
    if len(text) > limits.bytes:
        raise ManifestInvalid(None, f"the text is longer than {limits.bytes} bytes")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-16" if text.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8")
        except UnicodeDecodeError as error:
            raise ManifestInvalid(None, f"the text is not readable: {error}") from None
    if text.startswith(("{", "["), _begin_of_json(text, 0)):
        found: list[RepeatedKey] = []
        try:
            documents = _read_json(text, limits, found)
        except (ValueError, RecursionError, ResponseTooLarge):
            pass  # a mapping in flow style, or the reader of YAML says what is wrong
        else:
            if found and repeated is None:
                raise ManifestInvalid(found[0].document, f"the key {found[0].key!r} stands there twice")
            if repeated is not None:
                repeated += found
            yield from documents
            return
    yield from _read_yaml(text, limits, repeated)


def resolve(text: str) -> Scalar:
    """Return what a plain (unquoted) scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _MAY_BE_NUMBER or _DATE.match(text):
        return text
    digits = text.replace("_", "")
    if whole := _INTEGER.fullmatch(digits):
        number = int(digits, 8 if whole["octal"] else 0)
        if _MIN_INTEGER <= number <= _MAX_INTEGER:
            return number
    return text if not _FLOAT.fullmatch(digits) or math.isinf(inexact := float(digits)) else inexact


def _json_number(number: float) -> int | float:
    """Return a finite number as JSON writes it: `1e3` and `1.0` are whole numbers there."""
    return int(number) if number.is_integer() and abs(number) < _WHOLE_BELOW else number


def _read_json(text: str, limits: YamlLimits, repeated: list[RepeatedKey]) -> list[Any]:
    """Return the values of JSON texts one after another, maybe with `---` between them.

    Raises ValueError, RecursionError or ResponseTooLarge for other texts, ManifestInvalid for what is no value.
    """
    check_json(text.encode(), JsonLimits(max_bytes=4 * limits.bytes, max_nodes=limits.nodes, max_depth=limits.depth))
    documents: list[Any] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            again = Counter(key for key, _ in pairs) - Counter(value.keys())
            repeated.extend(RepeatedKey(len(documents), None, key) for key in again)
        return value

    def number(digits: str) -> int | float:
        value = float(digits)
        if not math.isfinite(value):
            raise ManifestInvalid(len(documents), f"{digits[:40]} is too large for a number")
        exact = resolve(digits)
        return exact if isinstance(exact, int) else _json_number(value)

    def constant(name: str) -> float:
        raise ValueError(name)

    decoder = json.JSONDecoder(object_pairs_hook=mapping, parse_int=number, parse_float=number, parse_constant=constant)
    at = 0
    while (at := _begin_of_json(text, at)) < len(text):
        if len(documents) >= limits.documents:
            raise ManifestInvalid(None, f"there are more than {limits.documents} documents")
        value, at = decoder.raw_decode(text, at)
        documents.append(value)
    if "\\u" in text:
        json.dumps(documents, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    return documents


def _begin_of_json(text: str, at: int) -> int:
    between = _BEFORE_JSON.match(text, at)
    return at if between is None else between.end()


def _read_yaml(text: str, limits: YamlLimits, repeated: list[RepeatedKey] | None) -> Iterator[Any]:
    text = _LATER_BOM.sub(r"\1", text) if _BOM in text else text
    if not text.endswith("\n"):
        text += "\n"  # as kubectl, which reads lines: the last one may be of a block
    reader = None
    try:
        reader = _YamlReader(text, limits, repeated)
        yield from reader.documents()
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise ManifestInvalid(reader.index if reader is not None else None, _describe(error, text)) from None
    finally:
        if reader is not None:
            reader.close()


class _Anchor(NamedTuple):
    """A value with an anchor, and what each alias of it adds to the text."""

    value: Any
    nodes: int
    bytes: int
    height: int


class _YamlReader:
    """Builds values from events; keeps count of everything."""

    def __init__(self, text: str, limits: YamlLimits, repeated: list[RepeatedKey] | None) -> None:
        self._parser = yaml.CSafeLoader(text)
        # The stubs of the parser know neither its events nor that there is one.
        self._next: Callable[[], Any] = self._parser.get_event
        self._limits = limits
        self._repeated = repeated
        self._nodes = 0
        self._bytes = 0
        self._deepest = 0
        self._aliases = 0
        self._alias_bytes = 0
        self._anchors: dict[str, _Anchor] = {}
        self.index = 0

    def documents(self) -> Iterator[Any]:
        while type(event := self._next()) is not yaml.StreamEndEvent:
            if type(event) is yaml.DocumentStartEvent:
                if self.index >= self._limits.documents:
                    raise ManifestInvalid(None, f"there are more than {self._limits.documents} documents")
                self._anchors = {}
                yield self._value(self._next(), 1)
            elif type(event) is yaml.DocumentEndEvent:
                self.index += 1

    def close(self) -> None:
        self._parser.dispose()

    def _value(self, event: Any, depth: int) -> Any:
        if type(event) is yaml.AliasEvent:
            return self._alias(event, depth)
        if event.anchor is None:
            return self._built(event, depth)
        nodes, size, deepest = self._nodes, self._bytes, self._deepest
        self._deepest = 0
        value = self._built(event, depth)
        self._anchors[event.anchor] = _Anchor(value, self._nodes - nodes, self._bytes - size, self._deepest - depth)
        self._deepest = max(self._deepest, deepest)
        return value

    def _built(self, event: Any, depth: int) -> Any:
        self._count(1, event)
        self._bytes += _BYTES_PER_NODE
        if depth > self._deepest:
            self._descend(depth, event)
        if type(event) is yaml.ScalarEvent:
            self._bytes += len(event.value)
            return self._scalar(event)
        if type(event) is yaml.MappingStartEvent:
            self._known_tag(event, "map")
            return self._mapping(depth)
        self._known_tag(event, "seq")
        return self._sequence(depth)

    def _descend(self, depth: int, event: Any) -> None:
        if depth > self._limits.depth:
            raise self._invalid(event, f"it is nested deeper than {self._limits.depth} levels")
        self._deepest = max(self._deepest, depth)

    def _alias(self, event: Any, depth: int) -> Any:
        self._aliases += 1
        if self._aliases > self._limits.aliases:
            raise self._invalid(event, f"there are more than {self._limits.aliases} aliases")
        known = self._anchors.get(event.anchor)
        if known is None:
            raise self._invalid(event, f"the alias {event.anchor!r} stands for nothing, or for itself")
        self._count(known.nodes, event)
        self._bytes += known.bytes
        self._alias_bytes += known.bytes
        if self._alias_bytes > self._limits.alias_bytes:
            raise self._invalid(event, f"aliases make it longer by more than {self._limits.alias_bytes} bytes")
        self._descend(depth + known.height, event)
        return known.value

    def _mapping(self, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        merged: set[str] = set()
        while type(event := self._next()) is not yaml.MappingEndEvent:
            if type(event) is yaml.ScalarEvent and event.value == "<<" and event.implicit[0]:
                more = self._to_merge(event, depth)
                value |= more
                merged.update(more)
                continue
            key = self._key(event, depth)
            if key in value and key not in merged:
                self._repeat(key, event)
            merged.discard(key)
            value[key] = self._value(self._next(), depth + 1)
        return value

    def _repeat(self, key: str, event: Any) -> None:
        if self._repeated is None:
            raise self._invalid(event, f"the key {key!r} stands there twice")
        self._repeated.append(RepeatedKey(self.index, event.start_mark.line + 1, key))

    def _sequence(self, depth: int) -> list[Any]:
        value: list[Any] = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            value.append(self._value(event, depth + 1))
        return value

    def _key(self, event: Any, depth: int) -> str:
        value = self._value(event, depth + 1)
        if type(value) is str:
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        raise self._invalid(event, "a key is no text")

    def _to_merge(self, event: Any, depth: int) -> dict[str, Any]:
        source = self._value(self._next(), depth + 1)
        merged: dict[str, Any] = {}
        for each in reversed(source) if isinstance(source, list) else [source]:
            if not isinstance(each, dict):
                raise self._invalid(event, "only mappings can be merged")
            merged |= each
        return merged

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            return self._tagged(event)
        value = resolve(event.value) if event.tag is None and event.implicit[0] else event.value
        return self._number(value, event) if isinstance(value, float) else value

    def _number(self, value: float, event: Any) -> int | float:
        if not math.isfinite(value):
            raise self._invalid(event, f"{event.value} is no number that JSON knows")
        return _json_number(value)

    def _tagged(self, event: Any) -> Any:
        value = resolve(event.value)
        expected: dict[str, type | tuple[type, ...]] = {
            "int": int,
            "float": (int, float),
            "bool": bool,
            "null": type(None),
        }
        kind = event.tag.removeprefix(_TAG)
        if kind not in expected or not isinstance(value, expected[kind]):
            raise self._invalid(event, f"{event.value[:40]!r} is no {kind}")
        return self._number(value, event) if isinstance(value, float) else value

    def _known_tag(self, event: Any, kind: str) -> None:
        if event.tag not in {None, "!", f"{_TAG}{kind}"}:
            raise self._invalid(event, f"the tag {event.tag} means nothing to Kubernetes")

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > self._limits.nodes:
            raise self._invalid(event, f"there are more than {self._limits.nodes} values")

    def _invalid(self, event: Any, what: str) -> ManifestInvalid:
        return ManifestInvalid(self.index, f"{_place(event.start_mark)}{what}")


def _describe(error: Exception, text: str) -> str:
    mark = None
    what = f"the text is not readable: {str(error).splitlines()[0]}"
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "it is no YAML"
    before, found, _ = text.partition(f"\n{_BOM}")
    bom = f"; line {before.count(chr(10)) + 2} begins with a byte order mark" if found else ""
    return f"{_place(mark)}{what}{bom}"


def _place(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
