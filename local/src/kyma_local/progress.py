"""Telling a person what is being done, and how far it is, while something takes minutes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 20.0


class Listener(Protocol):
    """Hears what is being done, and how much of it is done."""

    def doing(self, what: str) -> None:
        """Hear of the next thing that is being done."""

    def done(self, part: int, whole: int) -> None:
        """Hear how much of it is done by now."""


class Silent:
    """Tells nobody."""

    def doing(self, what: str) -> None:
        """Keep quiet."""

    def done(self, part: int, whole: int) -> None:
        """Keep quiet."""


@contextmanager
def told_on(console: Console) -> Iterator[Listener]:
    """Tell on a console: as a bar that moves on a terminal, elsewhere as a line now and then."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress)


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)

    def doing(self, what: str) -> None:
        self._progress.reset(self._task, total=None, description=what, visible=True)

    def done(self, part: int, whole: int) -> None:
        self._progress.update(self._task, completed=part, total=whole)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._what = ""
        self._began = self._said = time.monotonic()

    def doing(self, what: str) -> None:
        self._what, self._began = what, time.monotonic()
        self._say("")

    def done(self, part: int, whole: int) -> None:
        if time.monotonic() - self._said >= LINE_EVERY_SECONDS:
            self._say(f": {100 * part // max(whole, 1)} % after {time.monotonic() - self._began:.0f} s")

    def _say(self, more: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{self._what}{more}", highlight=False, markup=False)
