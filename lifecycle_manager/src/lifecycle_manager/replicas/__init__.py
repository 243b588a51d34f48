"""Replicas share the Kymas, and each event goes to the replica that has the Kyma.

`distribution` decides for each event, `sending` hands it over to another replica, `receiving` takes it there, and
`message` is what they send. The runtime decides by Leases which replica has which Kyma.
"""

from typing import TYPE_CHECKING

from kube_runtime.lazy import lazy

if TYPE_CHECKING:
    from lifecycle_manager.replicas.distribution import distributed
    from lifecycle_manager.replicas.receiving import create_app, is_replica
    from lifecycle_manager.replicas.sending import Deliveries
    from lifecycle_manager.replicas.settings import ReplicaSettings
else:
    __getattr__ = lazy(
        __name__,
        {
            "distribution": "distributed",
            "receiving": "create_app is_replica",
            "sending": "Deliveries",
            "settings": "ReplicaSettings",
        },
    )

__all__ = ["Deliveries", "ReplicaSettings", "create_app", "distributed", "is_replica"]
