"""The DNS names in certificates of the control plane's own servers."""

from lifecycle_manager_api import names

REPLICA_HOST = f"replica.{names.LIFECYCLE_MANAGER}.{names.KCP_NAMESPACE}"
"""The name in the certificates of replicas; no certificate of a Watcher has it."""


def admission_names(service: str) -> tuple[str, ...]:
    """Return the names by which the API server of KCP connects to a Service."""
    name = f"{service}.{names.KCP_NAMESPACE}"
    return (f"{name}.svc", f"{name}.svc.cluster.local", name)
