"""The canary: tests the event path of an SKR by a write of an object that belongs to LM.

A heartbeat proves that the Watcher reaches KCP. It does not prove that the API server reaches the Watcher: an edited
webhook, a wrong certificate or a NetworkPolicy would lose every change unnoticed. So LM changes an annotation of the
Watcher's ServiceAccount, and that change has to arrive as an event, with the challenge in it.

Most canaries are dry runs: they pass through the webhook, and the Watcher answers with a heartbeat of the name
`canary`, but nothing is stored and no watch of the users is triggered. Now and then the write is a real one. After a
canary without an answer, the next ones are sent in short succession until one is answered.

Each cluster is tested at an offset of its own in the interval, also after a canary that was sent at another time. So
clusters whose canaries were sent together, as after a pause of the process, don't stay together.

Times are monotonic seconds.
"""

import msgspec
from msgspec.structs import replace

from kube_runtime import Client
from lifecycle_manager.contract.resources import SERVICE_ACCOUNTS
from lifecycle_manager.options.watcher import CanaryTimes
from lifecycle_manager.skr.watcher import CANARY, challenge_for
from lifecycle_manager_api import names

ANNOTATION = f"{names.GROUP}/canary"
FIELD_MANAGER = "lifecycle-manager-canary"


class EventPath(msgspec.Struct, frozen=True):
    """What is known of one event path: when the next canary is due, and since when canaries are unanswered.

    The cluster is tested at `first`, and at every interval after it.
    """

    times: CanaryTimes
    first: float
    next_canary: float
    next_write: float
    unanswered_since: float | None = None
    answered_at: float | None = None

    @classmethod
    def untested(cls, times: CanaryTimes, *, now: float, share: float) -> "EventPath":
        """Return a path that nothing is known of. `share`, 0 to 1, spreads the first canaries over the interval."""
        first = now + share * times.interval
        return cls(times, first, first, now + share * times.write_interval)

    @classmethod
    def presumed_broken(cls, times: CanaryTimes, *, now: float) -> "EventPath":
        """Return a path that a former process found broken, until a canary proves otherwise."""
        return cls(times, now, now, now, unanswered_since=now - times.timeout)

    def is_due(self, now: float) -> bool:
        return now >= self.next_canary

    def is_write_due(self, now: float) -> bool:
        return now >= self.next_write

    def sending(self, now: float) -> "EventPath":
        """Return the path once a canary is about to be sent: the event may arrive before the API server's answer."""
        since = now if self.unanswered_since is None else self.unanswered_since
        return replace(self, next_canary=now + self.times.again, unanswered_since=since)

    def sent(self, now: float, *, write: bool) -> "EventPath":
        """Return the path once the API server has accepted the canary."""
        return replace(self, next_write=now + self.times.write_interval) if write else self

    def refused(self) -> "EventPath":
        """Return the path once the API server has refused the canary, which says nothing about the path."""
        return replace(self, unanswered_since=None)

    def answered(self, at: float) -> "EventPath":
        """Return the path once a canary has arrived as an event, which counts once."""
        if self.answered_at is not None and at <= self.answered_at:
            return self
        return replace(self, unanswered_since=None, answered_at=at, next_canary=self._next_after(at))

    def suspected(self, now: float) -> "EventPath":
        """Return the path to be tested at once, because something in the SKR was not as it should be, or is new."""
        return replace(self, next_canary=now)

    def broken_for(self, now: float) -> float:
        """Return the seconds for which canaries have been unanswered; 0 while they may still be answered in time."""
        waited = now - self.unanswered_since if self.unanswered_since is not None else 0.0
        return waited if waited >= self.times.timeout else 0.0

    def check_after(self, now: float) -> float:
        """Return the seconds until the next canary, or until an unanswered one means that the path is broken."""
        moments = [self.next_canary]
        if self.unanswered_since is not None and not self.broken_for(now):
            moments.append(self.unanswered_since + self.times.timeout)
        return max(0.0, min(moments) - now)

    def _next_after(self, moment: float) -> float:
        """Return when the cluster is tested next where all is in order."""
        return moment + self.times.interval - (moment - self.first) % self.times.interval


async def send_canary(skr: Client, kyma: str, now: float, *, write: bool) -> None:
    """Change the annotation, or pretend to. Raises KubeError where the API server refuses that itself."""
    annotations = {ANNOTATION: challenge_for(kyma, now)}
    metadata = {"name": CANARY.name, "namespace": CANARY.namespace, "annotations": annotations}
    await skr.apply_undecoded(
        SERVICE_ACCOUNTS,
        CANARY.name,
        {"apiVersion": "v1", "kind": CANARY.kind, "metadata": metadata},
        CANARY.namespace,
        field_manager=FIELD_MANAGER,
        dry_run=not write,
    )
