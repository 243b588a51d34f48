"""A set of objects in an SKR on behalf of one resource in KCP.

- `owner_writes`: the resource in KCP: its intent, its finalizer, its status and Events
- `state`: what a process remembers of a set: announced changes, repairs, and the inventory
- `steps`: what every owner of a set does; `apply` carries it out and is the only file that sends requests to an SKR
- `inventory`: the objects that the resource's status names
- `ownership`: which of several sets has an object: first come (`Claim`) or shared and handed over (`Holder`)
- `protected`, `policy`: what may be in a set
- `reporting`: what statuses and Events of such resources have in common

Decisions are pure functions; the domains `module_installation`, `sync_resource` and `skr_webhook` put them together in
their plans. The Watcher's objects have no resource of their own in KCP: the owner is `OwnObjects`.
"""

from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.inventory import Identity, entries_of, listed
from lifecycle_manager.object_set.owner_writes import OwnerWrites, RecordingFailed
from lifecycle_manager.object_set.policy import Policies, objections
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager.object_set.state import SetState

__all__ = [
    "Identity",
    "OwnerWrites",
    "Policies",
    "RecordingFailed",
    "SetState",
    "SkrObjects",
    "entries_of",
    "is_protected",
    "listed",
    "objections",
]
