"""Writing an object as readable YAML that loads as the same object.

Keys stand in an order that does not depend on where the object came from, so that the same object is the same text.
JSON has so few kinds of values that the text is written line by line, without a library: the events or the tree that a
library wants cost more than the text. A text which gets too long ends where it does.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from yaml.resolver import Resolver

from kube_runtime.yaml_scalars import ESCAPES, MAX_KEY_LENGTH, PLAIN, SPECIAL, is_plain_text

__all__ = ["TextTooLong", "dump_yaml"]

_FIRST = ("apiVersion", "kind", "metadata", "name", "namespace", "spec")
_LAST = "status"
_PLACED = frozenset({*_FIRST, _LAST})
_PLAIN = re.compile(PLAIN)
_SPECIAL = re.compile(f"[{SPECIAL}]")
_LITERAL = re.compile(rf"(?:[^{SPECIAL}]*(?<! )\n)*+[^{SPECIAL}]*(?<! )")
_AMBIGUOUS = "0123456789+-.=<"
# What a reader of YAML 1.1 takes for a number, a time, a merge or a default value.
_YAML_1_1 = re.compile(
    "|".join({f"(?:{each.pattern})" for first in _AMBIGUOUS for _, each in Resolver.yaml_implicit_resolvers[first]}),
    re.VERBOSE,
)


class TextTooLong(ValueError):
    """A text has more bytes than its limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the text has more than {max_bytes} bytes")


def dump_yaml(document: Mapping[str, Any], *, max_bytes: int | None = None) -> str:
    """Return the document as YAML in block style: identity first, `status` last, everything else by name.

    `max_bytes` limits the size of the text as a JSON string. Raises TextTooLong as soon as it is exceeded.
    """
    writer = _Writer(max_bytes)
    writer.document(document)
    text = "".join(writer.lines)
    if max_bytes is not None and len(msgspec.json.encode(text)) > max_bytes:
        raise TextTooLong(max_bytes)
    return text


class _Writer:
    """Writes the lines of a document. The first line of a value begins with `lead`, the others with `indent`."""

    def __init__(self, max_bytes: int | None) -> None:
        self.lines: list[str] = []
        self._max_bytes = max_bytes
        self._size = 0
        self._known: dict[str, str] = {}
        self._is_open = False

    def document(self, document: Mapping[str, Any]) -> None:
        if document:
            self._mapping(document, "", "")
        else:
            self._add("{}\n")
        if self._is_open:
            self._add("...\n")

    def _mapping(self, value: Mapping[str, Any], lead: str, indent: str) -> None:
        deeper = indent + "  "
        for key in _ordered(value):
            each = value[key]
            name = self._text(key)
            if len(name) > MAX_KEY_LENGTH:
                name = f"? {name}\n{indent}"
            if isinstance(each, str):
                text = self._lines(each, deeper) if "\n" in each else self._text(each)
                self._add(f"{lead}{name}: {text}\n")
            elif each and isinstance(each, Mapping):
                self._add(f"{lead}{name}:\n")
                self._mapping(each, deeper, deeper)
            elif each and isinstance(each, list | tuple):
                self._add(f"{lead}{name}:\n")
                self._sequence(each, indent, indent)
            else:
                self._add(f"{lead}{name}: {_atom(each)}\n")
            lead = indent

    def _sequence(self, value: list[Any] | tuple[Any, ...], lead: str, indent: str) -> None:
        deeper = indent + "  "
        for each in value:
            if isinstance(each, str):
                text = self._lines(each, deeper) if "\n" in each else self._text(each)
                self._add(f"{lead}- {text}\n")
            elif each and isinstance(each, Mapping):
                self._mapping(each, f"{lead}- ", deeper)
            elif each and isinstance(each, list | tuple):
                self._sequence(each, f"{lead}- ", deeper)
            else:
                self._add(f"{lead}- {_atom(each)}\n")
            lead = indent

    def _add(self, line: str) -> None:
        self._size += len(line)
        if self._max_bytes is not None and self._size > self._max_bytes:
            raise TextTooLong(self._max_bytes)
        self.lines.append(line)

    def _text(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = _on_one_line(text)
        return known

    def _lines(self, text: str, indent: str) -> str:
        """Return a text of several lines as a block, if every character of it would be kept."""
        if not _LITERAL.fullmatch(text):
            return _quoted(text)
        is_kept = text.endswith("\n\n") or text == "\n"
        self._is_open = is_kept  # of the last block
        header = ("2" if text[0] in " \n" else "") + ("+" if is_kept else "" if text.endswith("\n") else "-")
        lines = (f"\n{indent}{line}" if line else "\n" for line in text.removesuffix("\n").split("\n"))
        return f"|{header}{''.join(lines)}"


def _ordered(mapping: Mapping[str, Any]) -> list[str]:
    if _PLACED.isdisjoint(mapping):
        return sorted(mapping)
    ordered = [key for key in _FIRST if key in mapping]
    ordered += sorted(mapping.keys() - _PLACED)
    return [*ordered, _LAST] if _LAST in mapping else ordered


def _on_one_line(text: str) -> str:
    if not is_plain_text(text):
        return _quoted(text)
    if _PLAIN.fullmatch(text) and not (text[0] in _AMBIGUOUS and _YAML_1_1.match(text)):
        return text
    if _SPECIAL.search(text):
        return _quoted(text)
    return "'" + text.replace("'", "''") + "'"


def _quoted(text: str) -> str:
    text.encode()  # half of a surrogate pair is no text
    text = text.replace("\\", "\\\\")
    for escape, character in ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    return f'"{_SPECIAL.sub(_code, text)}"'


def _code(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _atom(value: object) -> str:
    """Return a value that is no text and has no content, as JSON writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


def _number(value: float) -> str:
    text = repr(value)
    if not math.isfinite(value):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    return text if "." in text else text.replace("e", ".0e")  # YAML 1.1 takes `1e3` for text
