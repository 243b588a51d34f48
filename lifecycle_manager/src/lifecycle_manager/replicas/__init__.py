"""Several replicas that share the fleet: every Kyma is one replica's, and whichever hears of a change tells that one.

`sharing` decides by Leases whose a Kyma is, and has all looked at that this replica gets. `distribution` brings each
event to the replica whose Kyma it concerns: `sending` hands it over there, and `receiving` takes it.
"""

from lifecycle_manager.replicas.distribution import Distribution
from lifecycle_manager.replicas.message import REPLICA_HOST
from lifecycle_manager.replicas.receiving import create_app
from lifecycle_manager.replicas.sending import Deliveries
from lifecycle_manager.replicas.sharing import Alone, Shared, Sharing, Work

__all__ = ["REPLICA_HOST", "Alone", "Deliveries", "Distribution", "Shared", "Sharing", "Work", "create_app"]
