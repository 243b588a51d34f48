"""The start of a control plane of which the Lifecycle Manager in Go may have a part."""

from collections.abc import Callable

from kube_runtime import Client, Manager
from lifecycle_manager.takeover import lease
from lifecycle_manager.takeover.split import SelectedKymas
from lifecycle_manager_api import Kyma


def setup(manager: Manager, kcp: Client) -> Callable[[Kyma], bool] | None:
    """Keep both versions from working on the same Kymas. To be called first.

    Returns which Kymas are this version's; None where all are.
    """
    if not isinstance(manager.sharding, SelectedKymas):
        lease.setup(manager, kcp)
        return None
    manager.sharding.follow(manager)
    return manager.sharding.selects
