"""SyncResource: objects that a Module Manager wants in an SKR; applied, corrected, and removed with it.

The text of a SyncResource is parsed, checked, applied with server-side apply, and pruned by the inventory in its
status. A text that can't be applied completely prunes nothing.

Start with `controller`: the triggers, and what a reconcile does; `rules` decides in between.
"""

from lifecycle_manager.options.configuration import SyncResourceSettings
from lifecycle_manager.sync_resource.controller import setup
from lifecycle_manager.sync_resource.rules import objection_to

__all__ = ["SyncResourceSettings", "objection_to", "setup"]
