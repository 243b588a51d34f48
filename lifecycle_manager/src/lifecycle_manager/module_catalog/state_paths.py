"""The paths of `spec.customStateCheck`: names and indexes, without the leading `$`, with or without a leading dot.

Module teams write them, and they are evaluated against what users write. So there are no wildcards, filters or regular
expressions, and a path is bounded: one evaluation costs a few lookups, whatever both contain.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any

from lifecycle_manager_api import CustomStateCheck
from lifecycle_manager_api.module_template import (
    MAX_PATH_LENGTH,
    MAX_PATH_SEGMENTS,
    MAX_STATE_CHECKS,
    MAX_VALUE_LENGTH,
)

Path = tuple[str | int, ...]
_NAME = frozenset(ascii_letters + digits + "_/-")
_MAX_DIGITS = 4
_QUOTES = frozenset("'\"")
_NOT_QUOTED = _QUOTES | {"\\"}


class PathBroken(ValueError):
    """A text is not a path of names and indexes."""


def check_error(checks: Sequence[CustomStateCheck]) -> str | None:
    """Return what is wrong with the checks of a ModuleTemplate; None where they can be evaluated."""
    if len(checks) > MAX_STATE_CHECKS:
        return f"spec.customStateCheck has {len(checks)} checks; at most {MAX_STATE_CHECKS} are allowed"
    for number, check in enumerate(checks):
        where = f"spec.customStateCheck[{number}]"
        if len(check.value) > MAX_VALUE_LENGTH:
            return f"{where}.value has more than {MAX_VALUE_LENGTH} characters"
        try:
            state_path(check.json_path)
        except PathBroken as error:
            return f"{where}.jsonPath {check.json_path[:80]!r} {error}"
    return None


def state_path(text: str) -> Path:
    """Return the names and indexes of a path. Raises PathBroken."""
    if len(text) > MAX_PATH_LENGTH:
        raise PathBroken(f"has more than {MAX_PATH_LENGTH} characters")
    return _parsed(text)


def value_at(document: Any, path: Path) -> tuple[Any, ...]:
    """Return the value at a path of a document, or nothing where there is none."""
    for part in path:
        if isinstance(part, str):
            if not isinstance(document, Mapping) or part not in document:
                return ()
        elif not isinstance(document, Sequence) or isinstance(document, str) or part >= len(document):
            return ()
        document = document[part]
    return (document,)


@lru_cache(maxsize=512)
def _parsed(text: str) -> Path:
    path = tuple(_parts(text.removeprefix("$")))
    if len(path) > MAX_PATH_SEGMENTS:
        raise PathBroken(f"has more than {MAX_PATH_SEGMENTS} names and indexes")
    return path


def _parts(text: str) -> Iterator[str | int]:
    """Yield the names and indexes. Raises PathBroken."""
    rest = text if text[:1] in {".", "["} else f".{text}"
    while rest:
        if rest[0] == "[":
            inner, closing, rest = _bracketed(rest)
            if not closing:
                raise _broken()
            yield inner
        elif rest[0] == ".":
            length = next((at for at, each in enumerate(rest[1:]) if each not in _NAME), len(rest) - 1)
            if not length:
                raise _broken()
            yield rest[1 : length + 1]
            rest = rest[length + 1 :]
        else:
            raise _broken()


def _bracketed(text: str) -> tuple[str | int, bool, str]:
    """Return the name or index in the brackets that a text begins with, whether they close, and what follows."""
    quote = text[1:2]
    if quote in _QUOTES:
        name, _, rest = text[2:].partition(quote)
        if not name or not _NOT_QUOTED.isdisjoint(name):
            raise _broken()
        return name, rest[:1] == "]", rest[1:]
    index, closing, rest = text[1:].partition("]")
    if not 0 < len(index) <= _MAX_DIGITS or not frozenset(digits).issuperset(index):
        raise _broken()
    return int(index), bool(closing), rest


def _broken() -> PathBroken:
    return PathBroken("is not a path of names and indexes, such as status.health or status.conditions[0].status")
