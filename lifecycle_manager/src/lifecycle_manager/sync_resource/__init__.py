"""SyncResource: objects that a Module Manager wants in an SKR; applied, corrected, and removed with it.

The text of a SyncResource is parsed, checked, applied with server-side apply, and pruned by the inventory in its
status. A text that can't be applied completely prunes nothing.

Start with `plan` for the rules and `controller` for the triggers; `intent` is what is recorded before an apply.
"""

from lifecycle_manager.sync_resource.controller import SyncResourceSettings, setup
from lifecycle_manager.sync_resource.plan import objection_to

__all__ = ["SyncResourceSettings", "objection_to", "setup"]
