"""A set of objects in an SKR on behalf of one resource in KCP.

- `owner`: the resource in KCP, and what marks its objects
- `inventory`: the objects that the resource's status names
- `ownership`: which of several sets has an object: first come (`Claim`) or shared and handed over (`Holder`)
- `protected`, `policy`: what may be in a set
- `apply`: writes, prunes and hands over objects; the only file here that sends requests
- `reporting`: what statuses and Events of such resources have in common

Decisions are pure functions; the domains `module_installation` and `sync_resource` put them together in their plans.
"""

from lifecycle_manager.object_set.inventory import Identity, entries_of, listed
from lifecycle_manager.object_set.owner import Owner, RecordingFailed, SkrObjects
from lifecycle_manager.object_set.policy import Allowance, Allowances, UnknownAllowance, forbidden, parse_allowances
from lifecycle_manager.object_set.protected import is_protected

__all__ = [
    "Allowance",
    "Allowances",
    "Identity",
    "Owner",
    "RecordingFailed",
    "SkrObjects",
    "UnknownAllowance",
    "entries_of",
    "forbidden",
    "is_protected",
    "listed",
    "parse_allowances",
]
