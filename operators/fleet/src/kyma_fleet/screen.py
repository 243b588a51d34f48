"""What is printed: on a terminal with colours and cut to its width, elsewhere plain and complete."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import typer
from rich.cells import cell_len

from kube_runtime import ObjectUnreadable
from kyma_fleet.text import cut, padded, plain, wrapped
from lifecycle_manager_api import State

STATE_COLOURS: Mapping[str, dict[str, Any]] = {
    State.READY.value: {"fg": "green"},
    State.PROCESSING.value: {"fg": "cyan"},
    State.DELETING.value: {"fg": "cyan"},
    State.WARNING.value: {"fg": "yellow"},
    State.ERROR.value: {"fg": "red", "bold": True},
    State.UNMANAGED.value: {"dim": True},
}
SIGNS: Mapping[str, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "wait": ("◌", "cyan"),
    "bad": ("✗", "red"),
    "note": ("·", "white"),
}
"""What stands for the marks of links and findings."""
GAP = "  "
MIN_LAST_COLUMN = 16


@dataclass(frozen=True, slots=True)
class Screen:
    """Where output goes, and in which format. `width` is None where lines are not cut."""

    colour: bool = False
    width: int | None = None
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    form: str = "table"

    @classmethod
    def of_process(cls, form: str = "table") -> "Screen":
        """Return the screen of this process: colours and a width only on a terminal, and no colours with NO_COLOR."""
        stream = sys.stdout
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
        is_terminal = stream.isatty()
        colour = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        is_cut = is_terminal and form != "wide"
        return cls(colour, shutil.get_terminal_size((80, 24)).columns if is_cut else None, stream, form)

    def print(self, line: str = "") -> None:
        """Print one line whose parts are safe already."""
        self.stream.write(f"{line}\n")

    def print_wrapped(self, head: str, text: str, indent: int) -> None:
        """Print a text after its head, in as many lines as it takes; all but the first are indented."""
        first, *others = wrapped(plain(text), self.width, indent)
        self.print(f"{head}{first}".rstrip())
        for line in others:
            self.print(f"{' ' * indent}{line}")

    def flush(self) -> None:
        """Send what was printed."""
        self.stream.flush()

    def painted(self, text: str, **style: Any) -> str:
        """Return a text with a colour, where colours are on."""
        return typer.style(text, **style) if self.colour and text and style else text

    def sign(self, mark: str) -> str:
        """Return the sign of a mark in its colour."""
        sign, colour = SIGNS[mark]
        return self.painted(sign, fg=colour)

    @staticmethod
    def style_of(state: str) -> dict[str, Any]:
        """Return the colour of a state."""
        return STATE_COLOURS.get(state, {})

    def state(self, text: str, *, pad: int = 0) -> str:
        """Return a state in its colour."""
        return self.painted(padded(text, pad), **STATE_COLOURS.get(text.strip(), {}))


def say(text: object, *, is_error: bool = False) -> None:
    """Print a line of `klm` itself to stderr: on a terminal in as many lines as it takes, elsewhere in one."""
    width = shutil.get_terminal_size((80, 24)).columns if sys.stderr.isatty() else None
    for line in wrapped(f"klm: {plain(text)}", width, 0):
        typer.secho(line, err=True, fg="red" if is_error else None)


class LeftOut:
    """Names objects that do not fit their type, each once, so that one of them does not fail a command for all."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def __call__(self, error: ObjectUnreadable) -> None:
        """Name an object."""
        if (text := str(error)) not in self._named:
            self._named.add(text)
            say(f"left out: {text}")

    @property
    def code(self) -> int:
        """The exit code of a command that has done the rest."""
        return 1 if self._named else 0


@dataclass(eq=False)
class LiveTable:
    """A table that is printed while it is read: as wide as its first rows need, and wider where a later one does.

    `state` is the index of the column with a state, -1 for none. On a terminal the last column is cut first, then the
    widest ones that are wider than their titles, until a row fits.
    """

    screen: Screen
    titles: Sequence[str]
    state: int = -1
    _widths: list[int] = field(default_factory=list, init=False)
    _fitting: list[int] = field(default_factory=list, init=False)

    def print(self, rows: Iterable[Sequence[str]]) -> int:
        """Print some rows, the titles before the first of all; return how many."""
        safe = [tuple(map(plain, row)) for row in rows]
        if not safe:
            return 0
        if not self._widths:
            self._widths = [cell_len(title) for title in self.titles]
            self._widen(safe)
            self.screen.print(self.screen.painted(self._line(self.titles), bold=True))
        else:
            self._widen(safe)
        for row in safe:
            self.screen.print(self._line(row))
        return len(safe)

    def _widen(self, rows: Sequence[Sequence[str]]) -> None:
        for index, column in enumerate(zip(*rows, strict=True)):
            self._widths[index] = max(self._widths[index], *map(_width, column))
        self._fitting = self._fitted()

    def _line(self, row: Sequence[str]) -> str:
        cells: list[str] = []
        for index, (cell, width) in enumerate(zip(row, self._fitting, strict=True)):
            text = cell if self.screen.width is None else cut(cell, width)
            text = text if index == len(row) - 1 else padded(text, width)
            cells.append(self.screen.state(text) if index == self.state else text)
        return GAP.join(cells).rstrip()

    def _fitted(self) -> list[int]:
        widths = list(self._widths)
        if self.screen.width is None:
            return widths
        excess = max(sum(widths) + len(GAP) * (len(widths) - 1) - self.screen.width, 0)
        of_last = min(excess, max(widths[-1] - MIN_LAST_COLUMN, 0))
        widths[-1] -= of_last
        for _ in range(excess - of_last):
            widths[max(range(len(widths)), key=lambda each: (widths[each] > len(self.titles[each]), widths[each]))] -= 1
        return widths


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
