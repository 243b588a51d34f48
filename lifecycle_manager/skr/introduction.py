"""Whether a cluster is ready for what comes after the Kyma CR, as the conditions of its Kyma say it."""

from lifecycle_manager_api import Kyma, find


def is_introduced(kyma: Kyma) -> bool:
    """Tell whether the Kyma's cluster has been prepared: its namespace and CR are there."""
    return find(kyma.status.conditions, "SKRReachable") is not None
