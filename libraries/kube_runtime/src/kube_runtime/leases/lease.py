"""One Lease object in the API server: who holds it, and when its last renewal was seen.

Clocks are never compared. A holder counts from the moment it sent its last renewal, every other process from the moment
it first saw that, which is later: the holder always stops first. The clock goes on while the machine sleeps.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from kube_crds import ObjectMetadata, Struct
from kube_runtime.resource import Resource


class LeaseLost(Exception):
    """A write was refused: this process does not hold its lease (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """How long things last.

    - `lease_seconds`: after so long without a renewal others may take over
    - `act_seconds`: after so long without a renewal the holder stops acting; its last request ends before others begin
    - `renew_seconds`: how often it renews; after a failure it tries again in half of that
    """

    lease_seconds: int = 15
    act_seconds: float = 10.0
    renew_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.renew_seconds < self.act_seconds < self.lease_seconds:
            raise ValueError("invalid lease timing: expected 0 < renew_seconds < act_seconds < lease_seconds")

    @property
    def retry_seconds(self) -> float:
        """The pause after a failure: a loss is met as often as by renewals in that time, at half of the writes."""
        return self.renew_seconds / 2


class LeaseSpec(Struct, frozen=True, kw_only=True):
    """Who holds a lease. The time is for people."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    renew_time: str | None = None


class Lease(Struct, frozen=True, kw_only=True):
    """A coordination.k8s.io/v1 Lease."""

    GROUP: ClassVar[str] = "coordination.k8s.io"
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Lease"
    PLURAL: ClassVar[str] = "leases"
    NAMESPACED: ClassVar[bool] = True

    metadata: ObjectMetadata
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource.of(Lease)


@dataclass(slots=True)
class Observation:
    """A revision of a Lease and the moment at which it was first seen."""

    lease: Lease
    seen_at: float

    def update(self, lease: Lease, now: float, *, as_of: str) -> None:
        """Observe a revision of the Lease; an older one, from a cache that is behind, is ignored.

        `as_of` is the version of the list that shows it, or its own: etcd may be restored from a backup.
        """
        known = self.lease.metadata.resource_version
        if lease.metadata.resource_version != known and int(as_of) >= int(known):
            self.lease = lease
            self.seen_at = now

    def free_at(self, max_seconds: float) -> float:
        """Return the moment from which others may take over; a Lease counts for `max_seconds` at most."""
        return self.seen_at + min(self.lease.spec.lease_duration_seconds, max_seconds)


def elapsed() -> float:
    """Return seconds of a clock that is never set and goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def wall_time() -> str:
    """Return the time as a Lease carries it, for people to read."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
