"""The things that go wrong, each at one place of a run: its n-th write, event or await.

A fault is a rule of the cluster and is notified of each await. What it needs done to the process it asks of the run. It
is over when its place has come and gone.
"""

from dataclasses import dataclass, field
from typing import Protocol

from kube_simulation.requests import Answer, ApiRequest, ConnectionDropped
from kube_simulation.rules import Proceed, Rule
from kube_simulation.store import StoredChange

__all__ = ["CutAtAwait", "Fault", "HideEvent", "KillAfterWrite", "Running", "StartStale", "Undisturbed"]

AGENT = "process-under-test"


class Running(Protocol):
    """The control that a fault has over its run."""

    def kill(self, *, stale_before: tuple[str, int] | None = None) -> None:
        """End the process and start it anew; on a view of a cluster as it was at a version, for a while."""

    def version_of(self, cluster: str) -> int:
        """Return the newest resource version of a cluster."""


@dataclass(eq=False)
class Fault(Rule):
    """What goes wrong at one place: `place` says which, counted from 1 on. By itself, nothing does."""

    place: int = 0
    counted: int = field(default=0, init=False)
    run: Running | None = field(default=None, init=False, repr=False)
    over: bool = field(default=False, init=False)

    may_be_fewer = False

    def at_await(self) -> bool:
        """Tell whether a reconcile is cancelled at this await."""
        return False

    def _is_here(self) -> bool:
        """Count a place; tell whether it is the one."""
        self.counted += 1
        if self.counted == self.place:
            self.over = True
            return True
        return False


@dataclass(eq=False)
class Undisturbed(Fault):
    """Counts the places of every kind."""

    writes: int = field(default=0, init=False)
    awaits: int = field(default=0, init=False)
    awaits_before_last_write: int = field(default=0, init=False)
    events: set[tuple[str, int]] = field(default_factory=set, init=False)

    def __str__(self) -> str:
        return "undisturbed"

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if _is_own_write(request):
            self.writes += 1
            self.awaits_before_last_write = self.awaits
        return answer

    def hides(self, request: ApiRequest, change: StoredChange) -> bool:
        if _is_own(request):
            self.events.add((request.cluster, change.version))
        return False

    def at_await(self) -> bool:
        self.awaits += 1
        return False


class KillAfterWrite(Fault):
    """The process dies when the server has done its write, before it gets the response."""

    def __str__(self) -> str:
        return f"killed after write {self.place}"

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if self.run is not None and _is_own_write(request) and self._is_here():
            self.run.kill()
            raise ConnectionDropped
        return answer


@dataclass(eq=False)
class StartStale(Fault):
    """The process dies after a write, and starts on a view of the cluster from before its last `back` writes."""

    back: int = 1
    versions: dict[str, list[int]] = field(default_factory=dict, init=False)

    def __str__(self) -> str:
        return f"restarted after write {self.place} on a view from before its last {self.back}"

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if self.run is None or not _is_own_write(request):
            return await proceed()
        known = self.versions.setdefault(request.cluster, [])
        known.append(self.run.version_of(request.cluster))
        answer = await proceed()
        if self._is_here():
            self.run.kill(stale_before=(request.cluster, known[-self.back :][0]))
            raise ConnectionDropped
        return answer


@dataclass(eq=False)
class HideEvent(Fault):
    """A change is hidden from the process until the object changes again, or the script has ended."""

    hidden: tuple[str, int] | None = field(default=None, init=False)
    seen: set[tuple[str, int]] = field(default_factory=set, init=False)

    may_be_fewer = True

    def __str__(self) -> str:
        return f"event {self.place} hidden until overwritten"

    def hides(self, request: ApiRequest, change: StoredChange) -> bool:
        if not _is_own(request):
            return False
        identity = (request.cluster, change.version)
        if identity not in self.seen:
            self.seen.add(identity)
            if self._is_here():
                self.hidden = identity
        return identity == self.hidden


class CutAtAwait(Fault):
    """A reconcile is cancelled at one of its awaits, and retried."""

    def __str__(self) -> str:
        return f"cancelled at await {self.place}"

    def at_await(self) -> bool:
        return self._is_here()


def _is_own(request: ApiRequest) -> bool:
    return request.user_agent.startswith(AGENT)


def _is_own_write(request: ApiRequest) -> bool:
    return _is_own(request) and request.is_write
