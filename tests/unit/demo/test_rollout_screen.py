"""What the demo of rollouts prints."""

import io

from rich.console import Console

from kyma_demo.report import DemoStep
from kyma_demo.rollout.screen import RolloutScreen
from tests.unit.fleet_page.rollouts import rollout

STEP = DemoStep("the rollout halts", 1500, verified=True, detail="kyma-00007 failed first")


def screen_on() -> tuple[RolloutScreen, io.StringIO]:
    stream = io.StringIO()
    return RolloutScreen(Console(file=stream, width=80, color_system=None)), stream


def test_step_is_shown_with_its_waves_and_its_result() -> None:
    screen, stream = screen_on()
    screen.step_started(STEP.name)
    halted = rollout()
    screen.show(halted.status.waves, halted)
    screen.step_finished(STEP)
    text = " ".join(stream.getvalue().split())
    for shown in (STEP.name, "Halted", "canary", "2 failed", "10 waiting", STEP.detail, "1.5 s"):
        assert shown in text


def test_line_is_printed_where_the_phase_changes() -> None:
    screen, stream = screen_on()
    for phase in ("Progressing", "Progressing", "Halted", "Halted"):
        screen.show(rollout(phase=phase).status.waves, rollout(phase=phase))
    assert [line.split(":")[0].strip() for line in stream.getvalue().splitlines()] == ["Progressing", "Halted"]
