"""Progress of work that takes minutes, on a console."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 20.0


class Listener:
    """Receives the progress of work; this one ignores it."""

    def doing(self, what: str) -> None:
        """A task begins."""

    def done(self, part: int, whole: int) -> None:
        """A part of the task is done."""


SILENT = Listener()


@contextmanager
def progress_on(console: Console) -> Iterator[Listener]:
    """Show progress on a console: as a bar on a terminal, otherwise as occasional lines."""
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


class _Bar(Listener):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)

    def doing(self, what: str) -> None:
        self._progress.reset(self._task, total=None, description=what, visible=True)

    def done(self, part: int, whole: int) -> None:
        self._progress.update(self._task, completed=part, total=whole)


class _Lines(Listener):
    def __init__(self, console: Console) -> None:
        self._console = console
        self._what = ""
        self._started_at = self._printed_at = time.monotonic()

    def doing(self, what: str) -> None:
        self._what, self._started_at = what, time.monotonic()
        self._print("")

    def done(self, part: int, whole: int) -> None:
        if time.monotonic() - self._printed_at >= LINE_EVERY_SECONDS:
            self._print(f": {100 * part // max(whole, 1)} % after {time.monotonic() - self._started_at:.0f} s")

    def _print(self, more: str) -> None:
        self._printed_at = time.monotonic()
        self._console.print(f"{self._what}{more}", highlight=False, markup=False)
