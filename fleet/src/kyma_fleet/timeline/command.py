"""Reads a Kyma with its parts as documents, and draws a timeline of the last writes for it."""

from datetime import datetime

from kube_runtime import Client
from kyma_fleet.explanation.moments import Moment, last_change, newest_trace
from kyma_fleet.explanation.reading import read_documents, read_moments
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from kyma_fleet.text import cut, padded, plain, wrapped

SHOWN = 40
BAR, MAX_BY = 10, 24


async def trace(kcp: Client, screen: Screen, name: str, module: str, *, everything: bool) -> int:
    """Print the timeline of the last writes, or of everything that is recorded."""
    documents = await read_documents(kcp, name, module)
    found = await read_moments(kcp, documents)
    if not found:
        raise Problem(f"nothing is recorded of {module or 'any module'} in Kyma {name}; klm explain {name} says why")
    print_timeline((found if everything else last_change(found))[-SHOWN:], screen)
    trace_id, reached = newest_trace(documents)
    if trace_id:
        screen.print(f"\ntrace {trace_id} of the newest change has reached")
        for each in reached:
            screen.print(f"  {plain(each)}")
    return 0


def print_timeline(found: list[Moment], screen: Screen) -> None:
    """Print moments with their distance from the first, and a mark at their place between first and last."""
    first, last = found[0].at, found[-1].at
    screen.print(f"last writes, from {first:%Y-%m-%d %H:%M:%S} UTC")
    by = min(max(len(plain(each.by)) for each in found), MAX_BY)
    for each in found:
        head = f"{_since(each.at, first)} {_bar(each.at, first, last)} {padded(cut(plain(each.by), by), by)} "
        lines = wrapped(plain(each.what), screen.width, len(head))
        screen.print(f"{head}{lines[0]}")
        for line in lines[1:]:
            screen.print(f"{' ' * len(head)}{line}")


def _since(at: datetime, first: datetime) -> str:
    return f"{_seconds(at, first):6.1f} s"


def _bar(at: datetime, first: datetime, last: datetime) -> str:
    whole = _seconds(last, first) or 1.0
    place = round(_seconds(at, first) / whole * (BAR - 1))
    return f"{'─' * place}●{' ' * (BAR - 1 - place)}"


def _seconds(at: datetime, first: datetime) -> float:
    return max((at - first).total_seconds(), 0.0)  # objects record whole seconds, the Watcher parts of them
