"""The canary: proves that the way of events from a cluster works, by a change of an object of our own.

A heartbeat shows that the Watcher reaches the control plane. It does not show that the API server reaches the Watcher:
an edited webhook, a wrong certificate or a policy in the network would lose every change in silence. So the annotation
of an object that is there anyway, the Watcher's ServiceAccount, is changed, and that has to come back as an event.

Most trials are dry runs. They go the same way, by the webhook, and are answered by a heartbeat of the name `canary`,
but nothing is stored and nobody's watch is woken; only now and then the change is a real one. Once a trial stays
without an answer, trials follow upon each other until one is answered.
"""

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kube_runtime import Client, ObjectKey, Resource
from lifecycle_manager.skr import ObjectReference
from lifecycle_manager_api import WatchEvent, names

CANARY = ObjectReference("", "ServiceAccount", names.SKR_NAMESPACE, "skr-webhook")
ANNOTATION = f"{names.GROUP}/canary"
FIELD_MANAGER = "lifecycle-manager-canary"
HEARTBEAT_NAME = "canary"
SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)


@dataclass(frozen=True, slots=True)
class CanaryTimes:
    """How often the way of events is tried, in seconds.

    A broken one is told `interval + patience` after it broke, at the latest: 50 s.
    """

    interval: float = 30.0
    patience: float = 20.0
    again: float = 5.0
    write_interval: float = 600.0


@dataclass(slots=True)
class _Path:
    """What is known of one cluster: when to try next, and since when trials have stayed without an answer."""

    next_trial: float
    next_write: float
    unanswered_since: float | None = None


@dataclass(eq=False)
class Canaries:
    """Tries the ways of events of all clusters. `clock` gives seconds that only grow."""

    times: CanaryTimes = CanaryTimes()
    clock: Callable[[], float] = time.monotonic
    _paths: dict[ObjectKey, _Path] = field(default_factory=dict, init=False)

    async def try_when_due(self, key: ObjectKey, skr: Client) -> None:
        """Send a trial if it is time for one. Raises KubeError where the cluster refuses the change itself."""
        path, now = self._path(key), self.clock()
        if now < path.next_trial:
            return
        write = now >= path.next_write
        path.next_trial = now + (self.times.again if path.unanswered_since is not None else self.times.patience / 2)
        if path.unanswered_since is None:
            path.unanswered_since = now  # before it is sent: the answer may be here sooner than that of the API server
        try:
            await skr.apply(
                SERVICE_ACCOUNTS,
                CANARY.name,
                _document(),
                CANARY.namespace,
                field_manager=FIELD_MANAGER,
                dry_run=not write,
            )
        except Exception:
            path.unanswered_since = None  # it never set out
            raise
        if write:
            path.next_write = now + self.times.write_interval

    def came_back(self, key: ObjectKey) -> bool:
        """Note that a trial was answered. Returns whether the way was thought to be broken."""
        broken = self.broken_for(key) > 0
        path, now = self._path(key), self.clock()
        path.unanswered_since = None
        path.next_trial = now + self.times.interval
        return broken

    def take_over_broken(self, key: ObjectKey) -> None:
        """Hold a way to be broken that a former process found so, until a trial shows otherwise."""
        if key not in self._paths:
            now = self.clock()
            self._paths[key] = _Path(now, now, unanswered_since=now - self.times.patience)

    def suspect(self, key: ObjectKey) -> None:
        """Have the way tried at once, because something in the cluster was not as it should be."""
        self._path(key).next_trial = self.clock()

    def broken_for(self, key: ObjectKey) -> float:
        """Return for how many seconds trials have stayed without an answer; 0 while there is patience left."""
        since = self._path(key).unanswered_since
        waited = self.clock() - since if since is not None else 0.0
        return waited if waited >= self.times.patience else 0.0

    def look_again_after(self, key: ObjectKey) -> float:
        """Return in how many seconds there is something to do or to see."""
        path, now = self._path(key), self.clock()
        moments = [path.next_trial]
        if path.unanswered_since is not None and not self.broken_for(key):
            moments.append(path.unanswered_since + self.times.patience)
        return max(0.0, min(moments) - now)

    def forget(self, key: ObjectKey) -> None:
        """Drop what is known of a cluster that is gone."""
        self._paths.pop(key, None)

    def _path(self, key: ObjectKey) -> _Path:
        """Return what is known; a new process spreads its first trials, so that not all clusters are asked at once."""
        if key not in self._paths:
            now, share = self.clock(), random.random()  # noqa: S311 - spreads load, guards nothing
            self._paths[key] = _Path(now + share * self.times.interval, now + share * self.times.write_interval)
        return self._paths[key]


def is_canary(event: WatchEvent) -> bool:
    """Tell whether an event is the answer to a trial."""
    gvk, watched = event.watched_gvk, event.watched
    if event.operation == "HEARTBEAT":
        return watched.name == HEARTBEAT_NAME
    return (gvk.group, gvk.kind, watched.namespace, watched.name) == CANARY


def _document() -> dict[str, Any]:
    metadata = {"name": CANARY.name, "namespace": CANARY.namespace, "annotations": {ANNOTATION: secrets.token_hex(6)}}
    return {"apiVersion": "v1", "kind": CANARY.kind, "metadata": metadata}
