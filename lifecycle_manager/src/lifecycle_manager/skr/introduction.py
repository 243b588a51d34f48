"""Whether a cluster is ready for what comes after the Kyma CR, as the conditions of its Kyma say it."""

from lifecycle_manager.skr.access import ClusterClaimed
from lifecycle_manager_api import Kyma, find


def is_introduced(kyma: Kyma) -> bool:
    """Tell whether the Kyma's cluster has been looked at, and is not another Kyma's."""
    reachable = find(kyma.status.conditions, "SKRReachable")
    return reachable is not None and reachable.reason != ClusterClaimed.reason
