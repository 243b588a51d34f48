"""What the demo of rollouts prints, with a terminal and without."""

import io

import msgspec
import pytest
from rich.console import Console

from kyma_demo.report import DemoStep
from kyma_demo.rollout.screen import MAX_SQUARES, STANDINGS, LineScreen, TerminalScreen, screen_of, squares_of
from lifecycle_manager_api import WaveStatus
from tests.unit.fleet_page.rollouts import rollout

STEP = DemoStep("the rollout halts", 1500, verified=True, detail="kyma-00007 failed first")


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_cluster_has_a_square_and_every_standing_its_own() -> None:
    counts = {each.field: number for number, each in enumerate(STANDINGS, start=1)}
    wave = msgspec.structs.replace(WaveStatus(name="europe", clusters=sum(counts.values())), **counts)
    squares = [square for square, _ in squares_of(wave)]
    assert [squares.count(each.square) for each in STANDINGS] == [*counts.values()]


def test_large_wave_has_few_squares_and_no_failure_is_lost() -> None:
    wave = WaveStatus(name="remaining", clusters=10_000, waiting=9_999, failed=1)
    squares = [square for square, _ in squares_of(wave)]
    assert "✗" in squares
    assert len(squares) <= MAX_SQUARES + len(STANDINGS)


@pytest.mark.parametrize("terminal", [True, False])
def test_step_is_shown_with_its_waves_and_its_result(terminal: bool) -> None:
    to = console(terminal=terminal)
    screen = screen_of(to)
    screen.step_started(STEP.name)
    halted = rollout()
    screen.show(halted.status.waves, halted)
    screen.step_finished(STEP)
    text = " ".join(printed(to).split())
    for shown in (STEP.name, "Halted", "canary", "2 failed", "10 waiting", STEP.detail, "1.5 s"):
        assert shown in text
    assert isinstance(screen, TerminalScreen) is terminal
    assert ("\x1b" in text) is terminal
    assert ("■" in text) is terminal


def test_without_a_terminal_a_line_is_printed_where_the_phase_changes() -> None:
    to = console(terminal=False)
    screen = LineScreen(to)
    for phase in ("Progressing", "Progressing", "Halted", "Halted"):
        screen.show(rollout(phase=phase).status.waves, rollout(phase=phase))
    assert [line.split(":")[0].strip() for line in printed(to).splitlines()] == ["Progressing", "Halted"]
