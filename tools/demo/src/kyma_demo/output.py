"""The output of the demo on a terminal: the steps, and one change as a timeline."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kyma_demo.report import DemoReport, DemoStep
from kyma_demo.timeline import Station

BAR_WIDTH = 14  # so that a line fits into 80 columns


class TerminalOutput:
    """Prints each step: a spinner while it runs, then a mark. On a quiet console, as by default, nothing is printed."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(quiet=True)
        self._status: Status | None = None

    def step_started(self, name: str) -> None:
        """Show a spinner beside the step."""
        if not self._console.quiet:
            self._status = self._console.status(f"{name} …")
            self._status.start()

    def step_finished(self, step: DemoStep) -> None:
        """Replace the spinner by a mark, the duration, and the observed result."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        mark = "[green]✓[/]" if step.verified else "[red]✗[/]"
        self._console.print(f"{mark} {step.name} [dim]({_readable(step.ms)})[/]", highlight=False)
        if step.detail:
            style = "dim" if step.verified else "red"
            self._console.print(Padding(Text(step.detail, style=style), (0, 0, 0, 2)))

    def show_timeline(self, timeline: Sequence[Station]) -> None:
        """Draw the timeline of one change."""
        if self._status is not None:
            self._status.stop()
        table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
        table.add_column(justify="right", style="bold", no_wrap=True)
        table.add_column(no_wrap=True, style="cyan")
        table.add_column(style="magenta", no_wrap=True)
        table.add_column()
        for station in timeline:
            bar = _bar(station.ms, timeline[-1].ms)
            table.add_row(f"{station.ms:.1f} ms", bar, station.program, station.what)
        self._console.print(table)


def print_summary(console: Console, report: DemoReport) -> None:
    """Print the figures of a run."""
    if report.change is None or report.floor is None:
        return
    ratio = report.change.median / report.floor.median
    console.print(
        f"\nFrom the user's write to the object in the SKR: median [bold]{report.change.median:.0f} ms[/], p99 "
        f"[bold]{report.change.p99:.0f} ms[/]; that is {ratio:.1f} times the floor of "
        f"{report.floor.median:.0f} ms, the same API calls sent back to back.",
        highlight=False,
    )


def _bar(ms: float, total_ms: float) -> str:
    position = min(BAR_WIDTH, round(BAR_WIDTH * ms / total_ms)) if total_ms else 0
    return "─" * position + "●" + " " * (BAR_WIDTH - position)


def _readable(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
