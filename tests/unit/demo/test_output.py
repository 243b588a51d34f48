"""What the demo prints on a terminal fits into 80 columns."""

from io import StringIO

from rich.console import Console

from kyma_demo.output import TerminalOutput, print_summary
from kyma_demo.report import DemoReport, DemoStep, Spread
from kyma_demo.timeline import Station


def test_steps_a_change_and_the_figures_are_readable() -> None:
    console = Console(file=StringIO(), width=80)
    output = TerminalOutput(console)
    for step in (DemoStep("a step", 12.0, True, "done"), DemoStep("another", 1200.0, False, "why not")):
        output.step_started(step.name)
        output.step_finished(step)
    output.show_timeline((Station("user", "writes", 0.0), Station("klm", "sees it", 40.0)))
    print_summary(console, DemoReport(change=Spread(40.0, 60.0), floor=Spread(20.0, 30.0)))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert {"✓ a step (12 ms)", "  done", "✗ another (1.2 s)", "  why not"} <= {line.rstrip() for line in lines}
    assert any(line.split() == ["40.0", "ms", "──────────────●", "klm", "sees", "it"] for line in lines)
    assert "that is 2.0 times the floor of 20 ms" in " ".join(lines)
