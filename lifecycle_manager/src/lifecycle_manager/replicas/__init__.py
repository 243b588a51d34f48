"""Replicas share the Kymas, and each event goes to the replica that has the Kyma.

`distribution` decides for each event, `sending` hands it over to another replica, `receiving` takes it there, and
`message` is what they send. The runtime decides by Leases which replica has which Kyma.
"""

from lifecycle_manager.contract.options import REPLICA_HOST
from lifecycle_manager.replicas.distribution import distributed
from lifecycle_manager.replicas.receiving import create_app, is_replica
from lifecycle_manager.replicas.sending import Deliveries
from lifecycle_manager.replicas.settings import ReplicaSettings

__all__ = ["REPLICA_HOST", "Deliveries", "ReplicaSettings", "create_app", "distributed", "is_replica"]
