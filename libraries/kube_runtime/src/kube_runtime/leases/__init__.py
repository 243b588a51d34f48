"""Sharding work among processes by Leases.

`membership` has every member renew a Lease of its own and shares keys by `rendezvous` hashing; `lease_sharding` does
that for a Manager; `handover` passes an event on to the member that owns its key. The owner of a fixed key that all
share is the leader. Give `check` to `Client.fenced_by`: a process that lost its lease writes nothing more.
"""

from kube_runtime.leases.handover import HandOver, NotHandedOver
from kube_runtime.leases.lease import LeaseLost, LeaseTiming
from kube_runtime.leases.lease_sharding import LeaseSharding
from kube_runtime.leases.membership import Member, Membership
from kube_runtime.leases.rendezvous import rendezvous

__all__ = [
    "HandOver",
    "LeaseLost",
    "LeaseSharding",
    "LeaseTiming",
    "Member",
    "Membership",
    "NotHandedOver",
    "rendezvous",
]
