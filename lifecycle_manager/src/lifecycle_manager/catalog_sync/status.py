"""The condition `ModuleCatalog` of a Kyma, with all its reasons."""

from kube_runtime import KubeError
from lifecycle_manager.contract.conditions import CATALOG_SYNC_FAILED, CATALOG_SYNCED, REMOVED, ConditionContent
from lifecycle_manager.skr import failure
from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import counted

REMOVING = "Removing"
# The other reasons are CATALOG_SYNCED, CATALOG_SYNC_FAILED and REMOVED, which other domains read, and those of
# skr.failure for an SKR that can't be accessed.


class CatalogRefused(KubeError):
    """The SKR refused objects of the catalog, all others were written; or it does not have its CRDs."""


GONE = ConditionContent("False", REMOVED, "the catalog is removed from the cluster")


def synced(*, is_frozen: bool) -> ConditionContent:
    """Return the condition of a catalog that is as wanted; the same for each, or each would be written."""
    off = f"synchronization of the catalog is off: the Kyma has the label {names.SYNC}=false"
    return ConditionContent("True", CATALOG_SYNCED, off if is_frozen else "the catalog is in the cluster")


def removing(objects: int) -> ConditionContent:
    """Return the condition while objects that were deleted still exist."""
    return ConditionContent(
        "False", REMOVING, f"waiting for the deletion of {counted(objects, 'object')} of the catalog"
    )


def failed(error: Exception) -> ConditionContent:
    if isinstance(error, CatalogRefused):
        return ConditionContent("False", CATALOG_SYNC_FAILED, str(error))
    return failure.failed(error)
