"""Writing an object as readable YAML that loads as the same object, by the emitter of libyaml.

Keys stand in an order that does not depend on where the object came from, so that the same object is the same text.
Readers of YAML 1.1 and 1.2 and Kubernetes read the same values: what one of them would take for something else is
quoted. The text is written value by value and not from a tree, so that a text which gets too long ends where it does.
"""

import io
import re
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

import msgspec
import yaml
from yaml.representer import SafeRepresenter
from yaml.resolver import Resolver

from kube_runtime.yaml_text import resolve

_FIRST = ("apiVersion", "kind", "metadata", "name", "namespace", "spec")
_LAST = "status"
_PLACED = frozenset({*_FIRST, _LAST})
_TEXT_TAG = "tag:yaml.org,2002:str"
_BREAKS = frozenset("\r\x85\u2028\u2029")
"""What a reader takes for the end of a line and returns as another character, unless it is escaped."""
_ESCAPED = {**dict.fromkeys("<>&", 5), **dict.fromkeys("\u2028\u2029", 3)}
"""What an API server writes as an escape of six bytes, and how many bytes that adds."""
_AMBIGUOUS = "0123456789+-.=<"
"""How a number, a time, a merge or a default value of YAML 1.1 or 1.2 begins that is text to Kubernetes."""
_NUMBER = re.compile(r"0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
"""A number of YAML 1.2, which may be too large for Kubernetes."""
_RESOLVER = Resolver()
_REPRESENTER = SafeRepresenter()

Emit = Callable[[yaml.Event], None]


class TextTooLong(ValueError):
    """A text has more bytes than its limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the text has more than {max_bytes} bytes")


def dump_yaml(document: Mapping[str, Any], *, max_bytes: int | None = None) -> str:
    """Return the document as YAML in block style: identity first, `status` last, everything else by name.

    `max_bytes` limits the `stored_size` of the text. Raises TextTooLong as soon as it is exceeded.
    """
    sink = _Sink(max_bytes)
    emitter = yaml.CSafeDumper(cast("IO[str]", sink), allow_unicode=True, width=1_000_000)
    emitter.emit(yaml.StreamStartEvent())
    emitter.emit(yaml.DocumentStartEvent(explicit=False))
    _write(emitter.emit, document, {})
    emitter.emit(yaml.DocumentEndEvent(explicit=False))
    emitter.emit(yaml.StreamEndEvent())
    return "".join(sink.parts)


def stored_size(text: str) -> int:
    """Return how many bytes a text takes in etcd as a field of a custom resource: as a JSON string of Go."""
    return len(msgspec.json.encode(text)) + sum(more * text.count(each) for each, more in _ESCAPED.items())


class _Sink(io.TextIOBase):
    """Takes the text, as long as it is within its limit."""

    def __init__(self, max_bytes: int | None) -> None:
        self.parts: list[str] = []
        self._max_bytes = max_bytes
        self._size = 2  # the quotes of the JSON string

    def write(self, part: str, /) -> int:
        if self._max_bytes is not None:
            self._size += stored_size(part) - 2
            if self._size > self._max_bytes:
                raise TextTooLong(self._max_bytes)
        self.parts.append(part)
        return len(part)


def _write(emit: Emit, value: Any, known: dict[str, yaml.ScalarEvent]) -> None:
    """Write a value; `known` are the texts that were written before."""
    if isinstance(value, str):
        emit(known.get(value) or known.setdefault(value, _text(value)))
    elif isinstance(value, Mapping):
        emit(yaml.MappingStartEvent(None, None, True, flow_style=False))
        for key in _ordered(value):
            emit(known.get(key) or known.setdefault(key, _text(key)))
            _write(emit, value[key], known)
        emit(yaml.MappingEndEvent())
    elif isinstance(value, list | tuple):
        emit(yaml.SequenceStartEvent(None, None, True, flow_style=False))
        for each in value:
            _write(emit, each, known)
        emit(yaml.SequenceEndEvent())
    elif value is None or isinstance(value, bool | int | float):
        emit(yaml.ScalarEvent(None, None, (True, False), _atom(value)))
    else:
        raise TypeError(f"a {type(value).__name__} is no value of JSON")


def _text(text: str) -> yaml.ScalarEvent:
    is_quoted = not _BREAKS.isdisjoint(text) or not isinstance(resolve(text), str)
    style = '"' if is_quoted else "|" if "\n" in text else None
    is_plain = text[:1] not in _AMBIGUOUS or not _is_value(text)
    return yaml.ScalarEvent(None, _TEXT_TAG, (is_plain, True), text, style=style)


def _is_value(text: str) -> bool:
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag != _TEXT_TAG or _NUMBER.fullmatch(text) is not None


def _atom(value: float | None) -> str:
    if isinstance(value, float):
        text: str = _REPRESENTER.represent_float(value).value
        return text
    return "null" if value is None else str(int(value)) if not isinstance(value, bool) else str(value).lower()


def _ordered(mapping: Mapping[str, Any]) -> list[str]:
    if _PLACED.isdisjoint(mapping):
        return sorted(mapping)
    ordered = [key for key in _FIRST if key in mapping]
    ordered += sorted(mapping.keys() - _PLACED)
    return [*ordered, _LAST] if _LAST in mapping else ordered
