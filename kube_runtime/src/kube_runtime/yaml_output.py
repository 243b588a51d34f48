"""Writing an object as readable YAML that loads as the same object.

Keys stand in an order that does not depend on where the object came from, so that the same object is the same text.
The text is written value by value and not from a tree, so that a text which gets too long ends where it does.
"""

import io
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

import msgspec
import yaml
from yaml.representer import SafeRepresenter
from yaml.resolver import Resolver

from kube_runtime.yaml_scalars import is_plain_text

__all__ = ["TextTooLong", "dump_yaml"]

_FIRST = {name: rank for rank, name in enumerate(("apiVersion", "kind", "metadata", "name", "namespace", "spec"))}
_BETWEEN, _LAST = len(_FIRST), len(_FIRST) + 1
_TEXT_TAG = "tag:yaml.org,2002:str"
_RESOLVER = Resolver()
_REPRESENTER = SafeRepresenter()

Emit = Callable[[yaml.Event], None]


class TextTooLong(ValueError):
    """A text has more bytes than its limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the text has more than {max_bytes} bytes")


def dump_yaml(document: Mapping[str, Any], *, max_bytes: int | None = None) -> str:
    """Return the document as YAML in block style: identity first, `status` last, everything else by name.

    `max_bytes` limits the size of the text as a JSON string. Raises TextTooLong as soon as it is exceeded.
    """
    sink = _Sink(max_bytes)
    emitter = yaml.CSafeDumper(cast("IO[str]", sink), allow_unicode=True, width=1_000_000)
    emit: Emit = emitter.emit
    emit(yaml.StreamStartEvent())
    emit(yaml.DocumentStartEvent(explicit=False))
    _write(emit, document)
    emit(yaml.DocumentEndEvent(explicit=False))
    emit(yaml.StreamEndEvent())
    return "".join(sink.parts)


class _Sink(io.TextIOBase):
    """Takes the text, as long as it is within its limit."""

    def __init__(self, max_bytes: int | None) -> None:
        self.parts: list[str] = []
        self._max_bytes = max_bytes
        self._size = 2  # the quotes of the JSON string

    def write(self, part: str, /) -> int:
        if self._max_bytes is not None:
            self._size += len(msgspec.json.encode(part)) - 2
            if self._size > self._max_bytes:
                raise TextTooLong(self._max_bytes)
        self.parts.append(part)
        return len(part)


def _write(emit: Emit, value: Any) -> None:
    if isinstance(value, str):
        emit(_text(value))
    elif isinstance(value, Mapping):
        emit(yaml.MappingStartEvent(None, None, True, flow_style=False))
        for key in sorted(value, key=_rank):
            emit(_text(key))
            _write(emit, value[key])
        emit(yaml.MappingEndEvent())
    elif isinstance(value, list | tuple):
        emit(yaml.SequenceStartEvent(None, None, True, flow_style=False))
        for each in value:
            _write(emit, each)
        emit(yaml.SequenceEndEvent())
    else:
        node = _REPRESENTER.represent_data(value)
        _REPRESENTER.represented_objects.clear()
        emit(yaml.ScalarEvent(None, node.tag, (True, False), node.value))


def _text(text: str) -> yaml.ScalarEvent:
    if "\n" in text:
        style: str | None = "|"
    else:
        style = None if is_plain_text(text) else '"'
    is_plain = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT_TAG  # type: ignore[no-untyped-call]
    return yaml.ScalarEvent(None, _TEXT_TAG, (is_plain, True), text, style=style)


def _rank(key: str) -> tuple[int, str]:
    return (_LAST if key == "status" else _FIRST.get(key, _BETWEEN), key)
