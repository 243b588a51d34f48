"""The lines of `klm status`."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from kube_runtime.ages import age
from kyma_fleet.overview.tally import Examples, Tally, counted, unfinished
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager_api import State

SHOWN_STATES = (
    State.READY,
    State.PROCESSING,
    State.WARNING,
    State.ERROR,
    State.DELETING,
    State.UNMANAGED,
)
MAX_MODULE_ROWS = 60


def print_report(tally: Tally, screen: Screen, now: datetime) -> None:
    """Print how the fleet is."""
    screen.print(_headline(tally, screen))
    _modules(tally, screen)
    _rollouts(tally, screen, now)
    _troubles(screen, "WORST CLUSTERS", tally.broken, now)
    if len(tally.causes) > 1:
        causes = ", ".join(f"{plain(reason)} {count:,}" for reason, count in tally.causes.most_common(8))
        screen.print(f"causes: {causes}")
    _troubles(screen, "NO EVENTS FROM", tally.silent, now)
    _troubles(screen, "NO CERTIFICATE FOR THE WATCHER OF", tally.certificates, now)
    _troubles(screen, "CERTIFICATE NOT RENEWED OF", tally.expiring, now)
    _replicas(tally, screen, now)
    _verdict(tally, screen, now)


def _headline(tally: Tally, screen: Screen) -> str:
    parts = []
    for state in (*SHOWN_STATES, State.EMPTY):
        if count := tally.states[state]:
            label = f"{count:,} {state.value or 'new'}"
            parts.append(screen.painted(label, fg=_colour(state)) if _colour(state) else label)
    total = counted(sum(tally.states.values()), "Kyma")
    more = [f"{tally.paused:,} paused"] if tally.paused else []
    more += [f"{tally.unreachable.count:,} unreachable"] if tally.unreachable.count else []
    return " · ".join([screen.painted(total, bold=True), ", ".join(parts), *more]) if parts else total


def _colour(state: State) -> str | None:
    return {State.READY: "green", State.WARNING: "yellow", State.ERROR: "red"}.get(state)


def _modules(tally: Tally, screen: Screen) -> None:
    counts: dict[tuple[str, str], Counter[State]] = {}
    for (module, version, state), count in tally.modules.items():
        counts.setdefault((module, version), Counter())[state] += count
    if not counts:
        return
    shown = [state for state in SHOWN_STATES if any(each[state] for each in counts.values())]
    screen.print()
    table = LiveTable(screen, ("MODULE", "VERSION", *(state.value.upper() for state in shown)))
    rows = [
        (module, version, *(f"{each[state]:,}" if each[state] else "." for state in shown))
        for (module, version), each in sorted(counts.items())
    ]
    table.print(rows[:MAX_MODULE_ROWS])
    if len(rows) > MAX_MODULE_ROWS:
        screen.print(f"and {len(rows) - MAX_MODULE_ROWS} more versions: klm get modules")


def _rollouts(tally: Tally, screen: Screen, now: datetime) -> None:
    rows = []
    for module, channel, each in unfinished(tally.rollouts):
        windows = f"{each.waiting:,}" if each.waiting else "."
        have = f"{each.done:,}/{each.done + each.behind:,}"
        rows.append((module, channel, each.version, have, windows, age(each.changed, now)))
    if rows:
        screen.print()
        LiveTable(screen, ("ROLLOUT", "CHANNEL", "TO", "HAVE IT", "WAIT FOR WINDOW", "SINCE")).print(rows)


def _troubles(screen: Screen, title: str, examples: Examples, now: datetime) -> None:
    if not examples.count:
        return
    screen.print()
    table = LiveTable(screen, (title, "STATE", "SINCE", "CAUSE"), state=1)
    worst = examples.worst()
    table.print(
        (each.kyma, each.state.value or "-", age(each.since, now), f"{each.reason}: {each.message}") for each in worst
    )
    if examples.count > len(worst):
        screen.print(f"and {examples.count - len(worst):,} more")


def _replicas(tally: Tally, screen: Screen, now: datetime) -> None:
    if not tally.replicas:
        return
    screen.print()
    table = LiveTable(screen, ("REPLICA", "KYMAS", "RENEWED"))
    table.print(
        (
            each.name,
            f"{tally.shards[each.name]:,}",
            f"{age(each.renewed, now)} ago{', too long ago' if each.is_silent(now) else ''}",
        )
        for each in tally.replicas
    )


def _verdict(tally: Tally, screen: Screen, now: datetime) -> None:
    screen.print()
    for line in _verdict_lines(tally, screen, now):
        screen.print(line)


def _verdict_lines(tally: Tally, screen: Screen, now: datetime) -> Iterator[str]:
    wrong = tally.wrong(now)
    if not wrong:
        yield screen.painted("nothing is wrong", fg="green")
        return
    yield f"{screen.painted('wrong:', fg='red', bold=True)} {plain('; '.join(wrong))}"
    worst = tally.broken.worst() or tally.silent.worst() or tally.expiring.worst()
    if worst:
        yield f"next:  klm explain {plain(worst[0].kyma)}"
