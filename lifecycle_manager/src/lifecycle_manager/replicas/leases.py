"""How the Kymas are shared among replicas: by Leases."""

from kube_runtime import Client
from kube_runtime.leases.lease import LeaseTiming
from kube_runtime.leases.lease_sharding import LeaseSharding
from lifecycle_manager.options.replicas import ReplicaSettings
from lifecycle_manager_api import names


def sharding_of(settings: ReplicaSettings, leases: Client) -> LeaseSharding | None:
    """Return how the Kymas are shared; None where this is the only replica."""
    if not settings.enabled:
        return None
    seconds = int(settings.lease_duration.total_seconds())
    return LeaseSharding(
        leases,
        namespace=settings.namespace,
        group=names.LIFECYCLE_MANAGER,
        name=settings.name,
        succeeds=bool(settings.given_name),
        address=settings.address,
        timing=LeaseTiming(lease_seconds=seconds, act_seconds=0.7 * seconds, renew_seconds=0.25 * seconds),
    )
