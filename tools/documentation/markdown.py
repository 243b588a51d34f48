"""Reads Markdown as GitHub and the site show it: links, headings and their anchors, blocks of code."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

HEADING = re.compile(r"#{1,6}\s+(?P<text>.+?)\s*#*$")
FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})(?P<language>\w*)")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"(?P<before>!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\()(?P<target>[^()\s]+)\)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
"""What a link outside of this repository begins with."""


class Block(NamedTuple):
    """A fenced block of code: the number of its first line, and its text."""

    line: int
    language: str
    code: str


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fenced code blocks, with their numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        found = FENCE.match(line)
        if fence:
            if found and found["mark"].startswith(fence):
                fence = ""
        elif found:
            fence = found["mark"]
        else:
            yield number, line


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of code."""
    fence, language, start, lines = "", "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        found = FENCE.match(line)
        if fence and found and found["mark"].startswith(fence):
            yield Block(start, language, "\n".join(lines) + "\n")
            fence = ""
        elif fence:
            lines.append(line)
        elif found:
            fence, language, start, lines = found["mark"], found["language"], number + 1, []


def anchors(text: str) -> frozenset[str]:
    """Return the anchors that GitHub gives to the headings: lower case, dashes for spaces, numbered if repeated."""
    seen: Counter[str] = Counter()
    found = set()
    for _, line in prose(text):
        if heading := HEADING.match(line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
            anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
            seen[anchor] += 1
    return frozenset(found)


def title(text: str) -> str:
    """Return the first heading."""
    return next(found["text"] for _, line in prose(text) if (found := HEADING.match(line)))


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield the targets of links within this repository, with the numbers of their lines."""
    for number, line in prose(text):
        for link in LINK.finditer(CODE.sub("code", line)):
            if not ELSEWHERE.match(link["target"]):
                yield number, link["target"]


def with_links(text: str, change: Callable[[str], str | None]) -> str:
    """Return the text with other targets of links; where `change` returns None, the link becomes its text."""
    outside = {number for number, _ in prose(text)}

    def replaced(link: re.Match[str]) -> str:
        if ELSEWHERE.match(link["target"]):
            return link[0]
        target = change(link["target"])
        return link["text"] if target is None else f"{link['before']}{target})"

    lines = enumerate(text.splitlines(keepends=True), start=1)
    return "".join(_outside_of_code(line, replaced) if number in outside else line for number, line in lines)


def _outside_of_code(line: str, replaced: Callable[[re.Match[str]], str]) -> str:
    """Replace links in a line; what is code and looks like one is left alone."""
    code = [found.span() for found in CODE.finditer(line)]
    return LINK.sub(
        lambda link: link[0] if any(start < link.start() < end for start, end in code) else replaced(link), line
    )


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; what is special to Markdown in a cell has to be escaped already."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |\n" for row in lines)


def escaped(text: str) -> str:
    """Return text for the cell of a table, as it is written."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", text) if "`" not in text else text.replace("|", "\\|")


def code(text: str) -> str:
    """Return text as code for the cell of a table."""
    return f"`{text}`".replace("|", "\\|") if text else ""
