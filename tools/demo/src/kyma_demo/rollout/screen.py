"""The steps and the waves of a rollout, as lines."""

import time
from collections.abc import Iterable, Iterator

from rich.console import Console

from kyma_demo.report import DemoStep
from lifecycle_manager_api import ModuleRollout, WaveStatus

LINE_SECONDS = 5.0
"""How often a line is printed where neither phase nor wave changes."""
STANDINGS = ("healthy", "soaking", "under_way", "failed", "unreachable", "held", "waiting")
"""How clusters of a wave count: the fields of its status."""


class RolloutScreen:
    """Prints a line whenever phase or wave changes, and now and then between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[str, ...] = ()
        self._again = 0.0

    def step_started(self, name: str) -> None:
        """Print the name of the step."""
        self._shown = ()
        self._print(f"{name} ...")

    def show(self, waves: Iterable[WaveStatus], rollout: ModuleRollout | None = None) -> None:
        """Print how far the waves are, where that is new; `rollout` is what they belong to."""
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

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _counts(wave: WaveStatus) -> Iterator[str]:
    for each in STANDINGS:
        if number := getattr(wave, each):
            yield f"{number} {each.replace('_', ' ')}"
