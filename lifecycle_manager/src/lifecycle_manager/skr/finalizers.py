"""Removes the finalizers of objects in an SKR that are being deleted, where their controller no longer runs."""

from typing import Any

import structlog

from kube_runtime import Client, JsonObject, NotFound, Resource
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager_api import ApiObject

log = structlog.get_logger("skr")


def is_held(live: JsonObject) -> bool:
    """Tell whether an object is being deleted and waits for its finalizers."""
    metadata = live["metadata"]
    return bool(metadata.get("deletionTimestamp") and metadata.get("finalizers"))


async def strip_finalizers(
    skr: Client, resource: Resource[Any], live: JsonObject, owner: ApiObject, *, field_manager: str = FIELD_MANAGER
) -> None:
    """Remove the finalizers of an object in the version that was read; one that is gone is fine. Raises KubeError.

    `owner` is the resource in KCP on whose behalf this is done, for the log: a finalizer stands for cleaning up that
    is now skipped.
    """
    metadata = live["metadata"]
    name, namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
    log.warning(
        "finalizers removed",
        owner=f"{owner.KIND} {owner.metadata.name}",
        kind=resource.kind,
        namespace=namespace,
        name=name,
        finalizers=metadata["finalizers"],
    )
    patch = {"metadata": {"finalizers": [], "resourceVersion": metadata["resourceVersion"]}}
    try:
        await skr.merge_patch(resource, name, patch, namespace or None, field_manager=field_manager)
    except NotFound:
        return
