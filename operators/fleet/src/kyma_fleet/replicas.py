"""The replicas of Lifecycle Manager, by their Leases."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES, Lease
from kyma_fleet.times import time_in
from lifecycle_manager_api import names

GROUP = f"kube-runtime/group={names.LIFECYCLE_MANAGER}"


@dataclass(frozen=True, slots=True)
class Replica:
    """One process of Lifecycle Manager by its Lease."""

    name: str
    renewed: datetime | None
    lease: timedelta

    def is_silent(self, now: datetime) -> bool:
        """Tell whether the Lease was not renewed for twice its length; the clocks may differ by one."""
        return self.renewed is None or now - self.renewed > 2 * self.lease


async def read_replicas(kcp: Client, namespace: str) -> tuple[Replica, ...]:
    """Return the replicas that have a Lease in a namespace, by name. Raises KubeError."""
    leases = await kcp.list(LEASES, namespace, label_selector=GROUP)
    return tuple(sorted(map(_replica_of, leases.items), key=lambda each: each.name))


def _replica_of(lease: Lease) -> Replica:
    spec = lease.spec
    return Replica(spec.holder_identity, time_in(spec.renew_time), timedelta(seconds=spec.lease_duration_seconds))
