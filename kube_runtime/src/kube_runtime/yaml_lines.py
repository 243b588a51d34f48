"""YAML as programs write it, read line by line.

Most texts hold one key or item on a line, as `dump_yaml`, kubectl and generators write them. Without events that takes
about half the time. Only what has exactly one meaning is read here: at the first line with anything else (anchors,
tags, flow style, text over several lines, an error) the whole text is left to the reader of events, which knows all of
YAML and says what is wrong.
"""

import math
import re
import sys
from functools import lru_cache
from typing import Any

from kube_runtime.yaml_scalars import ESCAPES, MAX_KEY_LENGTH, PLAIN, SPECIAL, WORDS, json_number, resolve

__all__ = ["Unusual", "read_lines"]

_IN_SINGLE_QUOTES = rf"'[^'{SPECIAL}]*+(?:''[^'{SPECIAL}]*+)*+'"
_IN_DOUBLE_QUOTES = rf'"[^"\\{SPECIAL}]*+(?:\\[^{SPECIAL}][^"\\{SPECIAL}]*+)*+"'
_SCALAR = f"{_IN_SINGLE_QUOTES}|{_IN_DOUBLE_QUOTES}|{PLAIN}"
_LINE = re.compile(
    r"( *+)((?:- ++)*+)"  # indentation, items of lists
    rf"(?:(\? )?({_SCALAR})(?:\n( *+))?:(?=[ \n]) *+)?+"  # a key; one with `?` has its colon on the next line
    rf"({_SCALAR}|\{{\}}|\[\]|\|[1-9]?[-+]?)?+\n"
)
_COMMENT = re.compile(rf" *+#[^{SPECIAL}]*+\n")
_FIRST_INDENT = re.compile(r"\n*+( *+)(?=[^ \n])")
_BLANK = re.compile(r" ++\n")
_CODE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_BACKSLASH = "\udc00"  # stands for `\\` meanwhile; half of a surrogate pair is in no text
_NO_TEXT_BEGINS = frozenset("0123456789+-.|{['\"")
_NODES_OF_A_LINE = 4  # a key, its value, and the mapping and the list around them; each dash may be one more


class Unusual(Exception):
    """The text has to be read in another way."""


def read_lines(text: str, *, documents: int, depth: int, nodes: int) -> list[Any]:
    """Return the values of the documents in a text. Raises Unusual, also where the text may exceed a limit."""
    if not text.endswith("\n") or _NODES_OF_A_LINE * text.count("\n") + text.count("- ") > nodes:
        raise Unusual
    return _Reader(text, documents, depth).read()


class _Reader:
    """Adds each line to the innermost list or mapping that stands in its column."""

    def __init__(self, text: str, max_documents: int, max_depth: int) -> None:
        self._text = text
        self._max_documents = max_documents
        self._max_depth = max_depth
        self._at = 0
        self._documents: list[Any] = []
        self._names: dict[str, str] = {}
        self._root: dict[str, Any]
        self._stack: list[tuple[int, Any]]
        self._awaiting: str | None
        self._begin(is_marked=False)

    def read(self) -> list[Any]:
        match, text, end, names = _LINE.match, self._text, len(self._text), self._names
        while self._at < end:
            line = match(text, self._at)
            if line is None:
                self._between()
                continue
            self._at = line.end()
            indent, dashes, question, key, before_colon, value = line.groups()
            if key is None:
                self._item(len(indent), dashes, value)
                continue
            column, mapping = self._stack[-1]
            if dashes or column != len(indent) or self._awaiting is not None or type(mapping) is not dict:
                column, mapping = self._mapping(len(indent), dashes)
            if question is not None or before_colon is not None:
                name = self._long_name(key, is_complete=question is not None and before_colon == " " * column)
            else:
                name = names[key] if key in names else self._name(key)
            if name in mapping:
                raise Unusual
            if value is None:
                mapping[name], self._awaiting = None, name
            else:
                mapping[name] = self._value(value) if value[0] in _NO_TEXT_BEGINS or value in WORDS else value
        self._end()
        return self._documents

    def _begin(self, *, is_marked: bool, is_awaited: bool = True) -> None:
        self._is_marked = is_marked
        self._root = {}
        self._stack = [(-1, self._root)]
        # The key of the innermost mapping whose value may begin on the next line. The document is a value of the root.
        self._awaiting = "" if is_awaited else None

    def _end(self) -> None:
        if self._root or self._is_marked:
            if len(self._documents) >= self._max_documents:
                raise Unusual
            self._documents.append(self._root.get(""))

    def _between(self) -> None:
        """Read a line that belongs to no value."""
        if comment := _COMMENT.match(self._text, self._at):
            self._at = comment.end()
            return
        marker = self._text[self._at : self._at + 4]
        if marker == "---\n":
            self._end()
            self._begin(is_marked=True)
        elif marker == "...\n" and (self._root or self._is_marked):
            self._end()
            self._begin(is_marked=False, is_awaited=False)
        else:
            raise Unusual
        self._at += len(marker)

    def _open(self, column: int, container: Any) -> None:
        self._stack.append((column, container))
        if len(self._stack) > self._max_depth:
            raise Unusual

    def _item(self, column: int, dashes: str, value: str | None) -> None:
        if dashes:
            self._items(column, dashes).append(self._value(value))
        elif value is not None:
            raise Unusual

    def _mapping(self, column: int, dashes: str) -> tuple[int, dict[str, Any]]:
        """Return the mapping of a key and its column."""
        mapping: dict[str, Any] = {}
        if dashes:
            self._items(column, dashes).append(mapping)
            column += len(dashes)
        elif not self._is_value(mapping, column, deeper_than=0):
            return column, self._mapping_at(column)
        self._open(column, mapping)
        return column, mapping

    def _mapping_at(self, column: int) -> Any:
        found, container = self._stack[-1]
        while found > column or (found == column and type(container) is list):
            self._stack.pop()
            found, container = self._stack[-1]
        if found != column:
            raise Unusual
        return container

    def _items(self, column: int, dashes: str) -> list[Any]:
        """Return the list of the last one of these dashes, the first of which is in this column."""
        items: list[Any] = []
        if self._is_value(items, column, deeper_than=-1):
            self._open(column, items)
        while self._stack[-1][0] > column:
            self._stack.pop()
        found, items = self._stack[-1]
        if found != column or type(items) is not list:
            raise Unusual
        for spaces in dashes.split("-")[1:-1]:
            column += 1 + len(spaces)
            inner: list[Any] = []
            items.append(inner)
            self._open(column, inner)
            items = inner
        return items

    def _is_value(self, container: Any, column: int, *, deeper_than: int) -> bool:
        """Make a container the value of the key that awaits one, if its column belongs there."""
        name, self._awaiting = self._awaiting, None
        outer_column, outer = self._stack[-1]
        if name is None or column - outer_column <= deeper_than:
            return False
        outer[name] = container
        return True

    def _name(self, key: str) -> str:
        if len(key) > MAX_KEY_LENGTH:
            raise Unusual
        name = self._names[key] = self._long_name(key, is_complete=True)
        return name

    def _long_name(self, key: str, *, is_complete: bool) -> str:
        name = _scalar(key)
        if not is_complete or key == "<<" or not isinstance(name, str):
            raise Unusual
        return name

    def _value(self, token: str | None) -> Any:
        if token is None:
            raise Unusual
        if token[0] == "|":
            return self._block(token)
        if token[0] in "{[":
            return {} if token[0] == "{" else []
        return _scalar(token)

    def _block(self, header: str) -> str:
        """Return the lines that follow, as far as they are indented more than the list or mapping."""
        column, _ = self._stack[-1]
        if header[1:2].isdigit():
            indent = column + int(header[1])
        else:
            first = _FIRST_INDENT.match(self._text, self._at)
            indent = len(first[1]) if first else 0
        if indent <= column:
            raise Unusual
        lines = _lines(indent).match(self._text, self._at)
        assert lines is not None  # noqa: S101 - no line is a match, too
        self._at = lines.end()
        if _BLANK.match(self._text, self._at):
            raise Unusual
        text = ("\n" + lines[0]).replace("\n" + " " * indent, "\n")[1:]
        if header[-1] == "+":
            return text
        stripped = text.rstrip("\n")
        return stripped + "\n" if stripped and header[-1] != "-" else stripped


@lru_cache
def _lines(indent: int) -> re.Pattern[str]:
    return re.compile(rf"(?: {{{indent}}}[^{SPECIAL}]*+\n|\n)*+")


def _scalar(token: str) -> Any:
    if token[0] == "'":
        return token[1:-1].replace("''", "'")
    if token[0] == '"':
        return _unquoted(token[1:-1]) if "\\" in token else token[1:-1]
    value = resolve(token)
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise Unusual
    return json_number(value)


def _unquoted(text: str) -> str:
    text = text.replace("\\\\", _BACKSLASH)
    for escape, character in ESCAPES.items():
        if escape in text:
            text = text.replace(escape, character)
    if "\\" in text:
        text = _CODE.sub(_character, text)
        if "\\" in text:
            raise Unusual
    return text.replace(_BACKSLASH, "\\")


def _character(found: re.Match[str]) -> str:
    code = int(found[found.lastindex or 0], 16)
    if code > sys.maxunicode or 0xD800 <= code <= 0xDFFF:
        raise Unusual
    return chr(code)
