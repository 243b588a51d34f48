"""Sharing work among processes by Leases.

`membership` has every member renew a Lease of its own and shares keys by `rendezvous` hashing; `lease_sharding` does
that for a Manager; `handover` passes an event on to the member that owns its key; `election` has one of several do
everything. Give `check` of any of them to `Client.fenced_by`: a process that lost its lease writes nothing more.
"""

from kube_runtime.leases.election import LeaderElection
from kube_runtime.leases.handover import HandOver, NotHandedOver
from kube_runtime.leases.lease import LeaseLost, LeaseTiming
from kube_runtime.leases.lease_sharding import LeaseSharding
from kube_runtime.leases.membership import Member, Membership
from kube_runtime.leases.rendezvous import rendezvous

__all__ = [
    "HandOver",
    "LeaderElection",
    "LeaseLost",
    "LeaseSharding",
    "LeaseTiming",
    "Member",
    "Membership",
    "NotHandedOver",
    "rendezvous",
]
