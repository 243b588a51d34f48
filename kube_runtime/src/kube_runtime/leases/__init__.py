"""Which process acts: `election` has one of several do everything, `membership` shares the keys among all of them.

`lease` is the Lease object and how time is counted, `sharding` says whose a key is, `handover` passes an event on to
the member whose it is. Give `LeaderElection.check` or `Membership.check` to `Client.fenced_by`, so that a process that
lost its lease writes nothing more.
"""

from kube_runtime.leases.election import LeaderElection
from kube_runtime.leases.handover import HandOver, NotHandedOver
from kube_runtime.leases.lease import LeaseLost, LeaseTiming
from kube_runtime.leases.membership import Member, Membership
from kube_runtime.leases.sharding import rendezvous

__all__ = [
    "HandOver",
    "LeaderElection",
    "LeaseLost",
    "LeaseTiming",
    "Member",
    "Membership",
    "NotHandedOver",
    "rendezvous",
]
