"""What `klm rollout list` and `klm rollout status` print."""

from collections.abc import Iterator
from datetime import datetime

from kube_runtime.ages import age
from kyma_fleet.documents import Document, reference
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager_api import ModuleRollout, WaveStatus

TITLES = ("NAME", "VERSION", "PHASE", "WAVE", "UPDATED", "FAILED", "AGE")
WAVE_TITLES = ("WAVE", "TOTAL", "HEALTHY", "SOAKING", "GOING", "WAITING", "HELD", "FAILED", "AWAY", "STATE")
RARE_TITLES = frozenset({"HELD", "AWAY"})
"""Columns that are left out where no wave has such clusters."""
FAILED_TITLES = ("FAILED", "WAVE", "REASON", "MESSAGE")
NONE = "-"
PHASE_STATES = {"Halted": "Error", "AwaitingApproval": "Warning", "Paused": "Warning", "Completed": "Ready"}
"""Which state's colour a phase has; the others have that of what is under way."""


class RolloutList(Document, frozen=True):
    """Some rollouts, each as it is in the API."""

    at: datetime
    items: tuple[ModuleRollout, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        rows = [
            (
                each.metadata.name,
                each.spec.version,
                each.status.phase,
                each.status.wave or NONE,
                f"{each.status.updated}/{each.status.clusters}",
                str(each.status.failed),
                age(each.metadata.creation_timestamp, self.at),
            )
            for each in self.items
        ]
        if not LiveTable(screen, TITLES).print(rows):
            screen.print("there are no rollouts: no module with a RolloutStrategy has got a version yet")

    def names(self) -> Iterator[str]:
        """Return the rollouts."""
        return (reference(each.kind, each.metadata.name) for each in self.items)


class RolloutStatus(Document, frozen=True):
    """One rollout, as it is in the API."""

    rollout: ModuleRollout

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        _print_status(self.rollout, screen)

    def names(self) -> Iterator[str]:
        """Return the rollout."""
        yield reference(self.rollout.kind, self.rollout.metadata.name)


def _print_status(rollout: ModuleRollout, screen: Screen) -> None:
    spec, status = rollout.spec, rollout.status
    former = f", instead of {spec.former_version}" if spec.former_version else ""
    what = f"{spec.module_name} {spec.version} in channel {spec.channel}{former}"
    screen.print(screen.painted(plain(what), bold=True))
    undoes = f" It takes {spec.undoes} back." if spec.undoes else ""
    screen.print(f"  {phase_of(rollout, screen)}: {plain(status.message or 'not begun')}.{plain(undoes)}")
    if status.failed_clusters:
        first = status.failed_clusters[0]
        screen.print(plain(f"  {first.kyma} failed first: {first.message or first.reason}"))
    if status.expected_end is not None:
        screen.print(f"  expected end: {status.expected_end:%Y-%m-%d %H:%M} UTC")
    for each in spec.approvals:
        when = f" at {each.at:%Y-%m-%d %H:%M} UTC" if each.at is not None else ""
        screen.print(plain(f"  wave {each.wave} was approved by {each.by or 'somebody'}{when}"))
    screen.print()
    waves = [dict(zip(WAVE_TITLES, _wave_row(each), strict=True)) for each in status.waves]
    titles = [each for each in WAVE_TITLES if each not in RARE_TITLES or any(wave[each] != "0" for wave in waves)]
    LiveTable(screen, titles).print([[wave[each] for each in titles] for wave in waves])
    if status.failed_clusters:
        screen.print()
        rows = [(each.kyma, each.wave, each.reason, each.message or NONE) for each in status.failed_clusters]
        LiveTable(screen, FAILED_TITLES).print(rows)
        if status.failed > len(rows):
            screen.print(f"and {status.failed - len(rows)} more")


def phase_of(rollout: ModuleRollout, screen: Screen) -> str:
    phase = rollout.status.phase
    return screen.painted(phase, **screen.style_of(PHASE_STATES.get(phase, "Processing")))


def _wave_row(wave: WaveStatus) -> tuple[str, ...]:
    counts = (
        wave.clusters,
        wave.healthy,
        wave.soaking,
        wave.under_way,
        wave.waiting,
        wave.held,
        wave.failed,
        wave.unreachable,
    )
    state = "done" if wave.completed_at else "begun" if wave.started_at else "waiting"
    if state == "begun" and wave.settled_at is not None:
        state = "soaking"
    return wave.name, *map(str, counts), state
