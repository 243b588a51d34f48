"""SyncResource: what a Module Manager wants in an SKR, applied there, kept there, and removed with it.

The text of a SyncResource is parsed, checked, applied with server-side apply, and pruned by the inventory in its
status: never by guess. A text that can't be applied whole removes nothing.

Read `plan` for the rules, with `policy` for what a module may have, `claims` for whose an object is and `intent` for
what is remembered of a round that was cut off; then `reconciler`.
"""

from lifecycle_manager.sync_resource.intent import claim_index, inventory_of
from lifecycle_manager.sync_resource.plan import in_conflict, objection_to
from lifecycle_manager.sync_resource.policy import Allowances, UnknownAllowance, parse_allowances
from lifecycle_manager.sync_resource.reconciler import SyncResourceReconciler

__all__ = [
    "Allowances",
    "SyncResourceReconciler",
    "UnknownAllowance",
    "claim_index",
    "in_conflict",
    "inventory_of",
    "objection_to",
    "parse_allowances",
]
