"""The waves of a rollout on a terminal, a square for each cluster; without a terminal as lines."""

import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kyma_demo.report import DemoStep
from lifecycle_manager_api import ModuleRollout, WaveStatus

PER_SECOND = 8
MAX_SQUARES = 160
"""A wave with more clusters has a square for several of them."""
SQUARES_WIDTH = 40
LINE_SECONDS = 5.0
"""How often a line is printed without a terminal, where neither phase nor wave changes."""
PHASE_STYLES = {"Halted": "bold red", "Completed": "bold green"}


class Standing(NamedTuple):
    """How clusters of a wave count: the field of its status, the words, and how they are drawn."""

    field: str
    words: str
    square: str
    style: str


STANDINGS = (
    Standing("healthy", "healthy", "■", "green"),
    Standing("soaking", "soaking", "▨", "green"),
    Standing("under_way", "under way", "▣", "blue"),
    Standing("failed", "failed", "✗", "bold red"),
    Standing("unreachable", "unreachable", "?", "yellow"),
    Standing("held", "held", "▤", "magenta"),
    Standing("waiting", "waiting", "□", "bright_black"),
)


class RolloutScreen(Protocol):
    """Receives the progress of a run."""

    def step_started(self, name: str) -> None:
        """A step begins."""

    def show(self, waves: Iterable[WaveStatus], rollout: ModuleRollout | None = None) -> None:
        """Show waves as they are now; `rollout` is what they belong to."""

    def step_finished(self, step: DemoStep) -> None:
        """A step has ended."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class NoScreen:
    """Shows nothing, for JSON output."""

    def step_started(self, name: str) -> None:
        """Do nothing."""

    def show(self, waves: Iterable[WaveStatus], rollout: ModuleRollout | None = None) -> None:
        """Do nothing."""

    def step_finished(self, step: DemoStep) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class TerminalScreen:
    """Draws the waves of each step in place, and leaves their last picture."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._waves: RenderableType = Text("")
        self._title: RenderableType = Text("")

    def step_started(self, name: str) -> None:
        """Begin a picture."""
        self._title = Spinner("dots", Text(name))
        self._waves = Text("")
        self._live = Live(self._picture(), console=self._console, refresh_per_second=PER_SECOND)
        self._live.start()

    def show(self, waves: Iterable[WaveStatus], rollout: ModuleRollout | None = None) -> None:
        """Draw the waves."""
        self._waves = _drawn(tuple(waves), rollout)
        if self._live is not None:
            self._live.update(self._picture())

    def step_finished(self, step: DemoStep) -> None:
        """Replace the spinner by a mark, and end the picture."""
        mark = ("✓", "green") if step.verified else ("✗", "red")
        self._title = Text.assemble(mark, f" {step.name} ", (f"({step.ms / 1000:.1f} s)", "dim"))
        if self._live is not None:
            self._live.update(self._picture())
        self.close()
        if step.detail:
            self._console.print(Padding(Text(step.detail, style="dim" if step.verified else "red"), (0, 0, 1, 2)))

    def close(self) -> None:
        """End the picture as it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self) -> RenderableType:
        return Group(self._title, Padding(self._waves, (0, 0, 0, 2)))


class LineScreen:
    """Prints a line whenever phase, wave or the first failure changes, and now and then between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[str, ...] = ()
        self._again = 0.0

    def step_started(self, name: str) -> None:
        """Print the name of the step."""
        self._shown = ()
        self._print(f"{name} ...")

    def show(self, waves: Iterable[WaveStatus], rollout: ModuleRollout | None = None) -> None:
        """Print how far the waves are, where that is new."""
        status = rollout.status if rollout is not None else None
        phase = (status.phase, status.wave) if status is not None else ()
        counts = "; ".join(f"{each.name}: {', '.join(_counts(each))}" for each in waves)
        if not counts or (phase == self._shown and time.monotonic() < self._again):
            return
        self._shown, self._again = phase, time.monotonic() + LINE_SECONDS
        self._print(f"  {status.phase + ': ' if status is not None else ''}{counts}")

    def step_finished(self, step: DemoStep) -> None:
        """Print the result of the step."""
        self._print(f"{'verified' if step.verified else 'FAILED'} ({step.ms / 1000:.1f} s): {step.detail}")

    def close(self) -> None:
        """Do nothing."""

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def screen_of(console: Console) -> RolloutScreen:
    """Return what suits a console."""
    return TerminalScreen(console) if console.is_terminal else LineScreen(console)


def squares_of(wave: WaveStatus) -> Iterator[tuple[str, str]]:
    """Yield the squares of a wave, one for each cluster where they are not too many, each with its style.

    Each standing that some cluster has gets one.
    """
    clusters_of_square = max(1, math.ceil(wave.clusters / MAX_SQUARES))
    for each in STANDINGS:
        number = math.ceil(_number(wave, each) / clusters_of_square)
        yield from [(each.square, each.style)] * number


def _drawn(waves: tuple[WaveStatus, ...], rollout: ModuleRollout | None) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(width=SQUARES_WIDTH)
    table.add_column()
    current = rollout.status.wave if rollout is not None else ""
    for wave in waves:
        name = Text(wave.name, style="bold" if wave.name == current else "")
        squares = Text.assemble(*squares_of(wave), overflow="fold")
        counts = Text(", ").join(
            Text(f"{number} {each.words}", style=each.style) for each in STANDINGS if (number := _number(wave, each))
        )
        table.add_row(name, squares, counts)
    if rollout is None:
        return table
    spec, status = rollout.spec, rollout.status
    heading = Text.assemble(
        f"{spec.module_name} {spec.former_version or 'none'} → ",
        (spec.version, "bold"),
        "  ",
        (status.phase, PHASE_STYLES.get(status.phase, "bold blue")),
        f"  {status.message}",
    )
    return Group(heading, table)


def _counts(wave: WaveStatus) -> Iterator[str]:
    for each in STANDINGS:
        if number := _number(wave, each):
            yield f"{number} {each.words}"


def _number(wave: WaveStatus, standing: Standing) -> int:
    number: int = getattr(wave, standing.field)
    return number
