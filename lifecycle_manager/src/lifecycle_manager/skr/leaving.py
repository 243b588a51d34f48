"""The order in which a Kyma that is being deleted leaves its cluster, as its conditions say it.

What looks after a part waits until the one before it has left: the modules, then the Watcher, then the catalog, then
the Kyma CR. So nothing is taken away that something which is still there stands on.
"""

from lifecycle_manager.skr.catalog_path import CONDITION as CATALOG
from lifecycle_manager.skr.event_path import CONDITION as WEBHOOK
from lifecycle_manager_api import Kyma, find

MODULES = "Modules"
MODULES_REMOVED = "ModulesRemoved"
REMOVED = "Removed"
"""The reason of a condition whose part has left the cluster."""

PARTS = ((WEBHOOK, "the Watcher in the cluster"), (CATALOG, "the module catalog in the cluster"))


def modules_left(kyma: Kyma) -> bool:
    """Tell whether nothing of the modules is left, so that the Watcher may leave."""
    return _says(kyma, MODULES, MODULES_REMOVED)


def watcher_left(kyma: Kyma) -> bool:
    """Tell whether the Watcher is gone, or never came, so that the catalog may leave."""
    return modules_left(kyma) and (find(kyma.status.conditions, WEBHOOK) is None or _says(kyma, WEBHOOK, REMOVED))


def parts_still_there(kyma: Kyma) -> tuple[str, ...]:
    """Name what is still in the cluster after the modules."""
    return tuple(
        what
        for kind, what in PARTS
        if find(kyma.status.conditions, kind) is not None and not _says(kyma, kind, REMOVED)
    )


def _says(kyma: Kyma, kind: str, reason: str) -> bool:
    condition = find(kyma.status.conditions, kind)
    return condition is not None and condition.reason == reason
