"""Replicas share the Kymas, and each event goes to the replica that has the Kyma.

`distribution` decides for each event, `sending` hands it over to another replica, `receiving` takes it there, and
`message` is what they send. The runtime decides by Leases (`leases`) which replica has which Kyma.
"""

from lifecycle_manager.options.replicas import ReplicaSettings
from lifecycle_manager.replicas.distribution import distributed
from lifecycle_manager.replicas.leases import sharding_of
from lifecycle_manager.replicas.receiving import create_app, is_replica
from lifecycle_manager.replicas.sending import Deliveries

__all__ = ["Deliveries", "ReplicaSettings", "create_app", "distributed", "is_replica", "sharding_of"]
