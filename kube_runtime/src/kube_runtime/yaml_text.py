"""YAML as Kubernetes reads it, with limits, as the text may come from anybody.

A text as programs write it is read line by line, which takes about half the time. All else is read by libyaml, which
Kubernetes' own reader derives from. Values are built from its events, so a text is never expanded beyond its limits:
the values, bytes and depth behind an alias count each time it is used. A duplicate key in a mapping is an error, where
many readers keep the last one silently.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from kube_runtime.exceptions import ManifestInvalid
from kube_runtime.yaml_lines import Unusual, read_lines
from kube_runtime.yaml_scalars import json_number, resolve

__all__ = ["DEFAULT_LIMITS", "YamlLimits", "load_documents", "load_yaml", "read_events"]

_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_BYTES_PER_NODE = 3  # quotes and a comma, or brackets and a comma
_TEXT_TAGS = frozenset({"!", f"{_TAG}str"})


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlLimits:
    """How much a YAML text may hold. `nodes` counts every value, those behind an alias at each use.

    `alias_bytes` is how much longer all aliases together may make the text.
    """

    bytes: int = 16 * 1024 * 1024
    documents: int = 5_000
    depth: int = 100
    nodes: int = 1_000_000
    aliases: int = 1_000
    alias_bytes: int = 1024 * 1024


DEFAULT_LIMITS = YamlLimits()


def load_yaml(text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS) -> Any:
    """Return the value of a text that holds one document (None if it is empty). Raises ManifestInvalid."""
    documents = list(load_documents(text, limits))
    if len(documents) > 1:
        raise ManifestInvalid(1, "there is more than one document")
    return documents[0] if documents else None


def load_documents(text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS) -> Iterator[Any]:
    """Yield the value of each document. Raises ManifestInvalid at the first that is broken or too large."""
    if len(text) > limits.bytes:
        raise ManifestInvalid(None, f"the text is longer than {limits.bytes} bytes")
    try:
        line_by_line = text if isinstance(text, str) else text.decode()
        found = read_lines(line_by_line, documents=limits.documents, depth=limits.depth, nodes=limits.nodes)
    except (Unusual, UnicodeDecodeError):
        yield from read_events(text, limits)
    else:
        yield from found


def read_events(text: str | bytes, limits: YamlLimits) -> Iterator[Any]:
    """Yield the value of each document, read by libyaml. Raises ManifestInvalid."""
    reader = _Reader(text, limits)
    try:
        yield from reader.documents()
    except yaml.MarkedYAMLError as error:
        raise ManifestInvalid(reader.index, _describe(error)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ManifestInvalid(reader.index, f"the text is not readable: {str(error).splitlines()[0]}") from None
    finally:
        reader.close()


class _Anchor(NamedTuple):
    """A value with an anchor, and what each alias of it adds to the text."""

    value: Any
    nodes: int
    bytes: int
    height: int


class _Reader:
    """Builds values from events; keeps count of everything."""

    def __init__(self, text: str | bytes, limits: YamlLimits) -> None:
        self._parser = yaml.CSafeLoader(text)
        self._limits = limits
        self._nodes = 0
        self._bytes = 0
        self._deepest = 0
        self._aliases = 0
        self._alias_bytes = 0
        self._anchors: dict[str, _Anchor] = {}
        self.index = 0

    def documents(self) -> Iterator[Any]:
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if self.index >= self._limits.documents:
                    raise ManifestInvalid(None, f"there are more than {self._limits.documents} documents")
                self._anchors = {}
                yield self._value(self._next(), 1)
            elif isinstance(event, yaml.DocumentEndEvent):
                self.index += 1

    def close(self) -> None:
        self._parser.dispose()

    def _next(self) -> Any:
        """Return the next event. The stubs of the parser know neither its events nor that there is one."""
        return self._parser.get_event()

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        nodes, size, deepest = self._nodes, self._bytes, self._deepest
        self._count(1, event)
        self._bytes += _BYTES_PER_NODE
        self._deepest = 0
        self._descend(depth, event)
        if isinstance(event, yaml.ScalarEvent):
            self._bytes += len(event.value)
            value: Any = self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._known_tag(event, "map")
            value = self._mapping(depth)
        else:
            self._known_tag(event, "seq")
            value = self._sequence(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(value, self._nodes - nodes, self._bytes - size, self._deepest - depth)
        self._deepest = max(self._deepest, deepest)
        return value

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
        merged: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]:
                for key, merging in self._to_merge(event, depth).items():
                    merged.setdefault(key, merging)
                continue
            key = self._key(event, depth)
            if key in value:
                raise self._invalid(event, f"the key {key!r} stands there twice")
            value[key] = self._value(self._next(), depth + 1)
        return {**merged, **value} if merged else value

    def _sequence(self, depth: int) -> list[Any]:
        value: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            value.append(self._value(event, depth + 1))
        return value

    def _key(self, event: Any, depth: int) -> str:
        value = self._value(event, depth + 1)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._invalid(event, "a key is no text")

    def _to_merge(self, event: Any, depth: int) -> dict[str, Any]:
        source = self._value(self._next(), depth + 1)
        merged: dict[str, Any] = {}
        for each in source if isinstance(source, list) else [source]:
            if not isinstance(each, dict):
                raise self._invalid(event, "only mappings can be merged")
            for key, value in each.items():
                merged.setdefault(key, value)
        return merged

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None:
            return self._tagged(event)
        value = resolve(event.value) if event.implicit[0] else event.value
        if isinstance(value, float):
            return self._number(value, event)
        return value

    def _number(self, value: float, event: Any) -> int | float:
        if not math.isfinite(value):
            raise self._invalid(event, f"{event.value} is no number that JSON knows")
        return json_number(value)

    def _tagged(self, event: Any) -> Any:
        if event.tag in _TEXT_TAGS:
            return event.value
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


def _describe(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{_place(mark)}{error.problem or error.context or 'it is no YAML'}"


def _place(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
