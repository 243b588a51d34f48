"""Reads a Kyma with its parts as documents, and draws a timeline of the last writes for it."""

from collections.abc import Iterator
from datetime import datetime

from kube_runtime import Client
from kyma_fleet.control_plane import require_module
from kyma_fleet.documents import Document, Part, print_document, reference
from kyma_fleet.explanation.moments import last_change, newest_trace
from kyma_fleet.explanation.reading import read_documents, read_moments
from kyma_fleet.screen import Screen, say
from kyma_fleet.text import cut, padded, plain
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import names

SHOWN = 40
BAR, MAX_BY = 10, 24


class Write(Part, frozen=True):
    """One thing that was done, by whom, and to which object."""

    at: datetime
    by: str
    what: str
    about: str = ""


class Timeline(Document, frozen=True):
    """The last writes for a Kyma or a module; `reached` are the objects that the trace of the newest change has."""

    kyma: str
    writes: tuple[Write, ...]
    trace_id: str = ""
    reached: tuple[str, ...] = ()

    def print_table(self, screen: Screen) -> None:
        """Print it for people: writes with their distance from the first, and a mark between first and last."""
        first, last = self.writes[0].at, self.writes[-1].at
        screen.print(f"last writes, from {first:%Y-%m-%d %H:%M:%S} UTC")
        by = min(max(len(plain(each.by)) for each in self.writes), MAX_BY)
        for each in self.writes:
            head = (
                f"{_seconds(each.at, first):6.1f} s {_bar(each.at, first, last)} {padded(cut(plain(each.by), by), by)} "
            )
            screen.print_wrapped(head, each.what, len(head))
        if self.trace_id:
            screen.print(f"\ntrace {self.trace_id} of the newest change has reached")
            for name in self.reached:
                screen.print(f"  {plain(name)}")

    def names(self) -> Iterator[str]:
        """Return the objects that were written."""
        return (reference(*each.about.split(" ", 1)) for each in self.writes if each.about)


async def trace(kcp: Client, screen: Screen, name: str, module: str, *, everything: bool) -> int:
    """Print the timeline of the last writes, or of everything that is recorded."""
    documents = await read_documents(kcp, name, module)
    found = await read_moments(kcp, documents)
    if not found:
        require_module(await kcp.get(KYMAS, name, names.KCP_NAMESPACE), module)
        say(f"nothing is recorded of {module} in Kyma {name}; klm explain {name} says why")
        return 0
    shown = (found if everything else last_change(found))[-SHOWN:]
    trace_id, reached = newest_trace(documents)
    writes = tuple(Write(each.at, each.by, each.what, each.about) for each in shown)
    print_document(Timeline(kyma=name, writes=writes, trace_id=trace_id, reached=reached), screen)
    return 0


def _bar(at: datetime, first: datetime, last: datetime) -> str:
    whole = _seconds(last, first) or 1.0
    place = round(_seconds(at, first) / whole * (BAR - 1))
    return f"{'─' * place}●{' ' * (BAR - 1 - place)}"


def _seconds(at: datetime, first: datetime) -> float:
    return max((at - first).total_seconds(), 0.0)  # objects record whole seconds, the Watcher parts of them
