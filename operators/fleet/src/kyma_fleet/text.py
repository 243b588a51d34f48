"""Text of clusters, made safe for a terminal: nothing that is printed may move the cursor or hide what follows."""

import re
import textwrap

from rich.cells import cell_len, set_cell_size

_INVISIBLE = r"\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
_UNSAFE = re.compile(rf"[\x00-\x1f\x7f-\x9f{_INVISIBLE}]")
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?")
_SPACES = re.compile(r"\s+")
MAX_LENGTH = 4_000


def plain(text: object, max_length: int = MAX_LENGTH) -> str:
    """Return a text as one line without control characters, escape sequences and marks of direction."""
    known = str(text)
    if known.isascii() and known.isprintable() and len(known) <= max_length:
        return known
    line = _UNSAFE.sub("", _SPACES.sub(" ", _ESCAPE.sub("", known[: max_length * 4])))
    line = " ".join(line.split())
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


def code(line: str) -> str:
    """Return a line of code without control characters and what else `plain` removes; its spaces stay."""
    return _UNSAFE.sub("", _ESCAPE.sub("", line.replace("\t", "    ")))


def cut(text: str, width: int) -> str:
    """Return a line that is at most so many columns wide."""
    if width <= 0:
        return ""
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def wrapped(line: str, width: int | None, used: int) -> list[str]:
    """Return a line in as many as it takes beside so many used columns; one where nothing is cut."""
    if width is None:
        return [line]
    return textwrap.wrap(line, max(width - used, 20), break_long_words=True, break_on_hyphens=False) or [""]


def padded(text: str, width: int) -> str:
    """Return a text with spaces up to a width in columns."""
    return text + " " * (width - cell_len(text))
