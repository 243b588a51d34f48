"""Takes the finalizers off an object of a user cluster that is being deleted, where nobody is left to do it."""

from typing import Any

import structlog

from kube_runtime import Client, JsonObject, NotFound, Resource
from lifecycle_manager.resources import FIELD_MANAGER
from lifecycle_manager_api import ApiObject

log = structlog.get_logger("skr")


def is_held(live: JsonObject) -> bool:
    """Tell whether an object is being deleted and waits for its finalizers."""
    metadata = live["metadata"]
    return bool(metadata.get("deletionTimestamp") and metadata.get("finalizers"))


async def strip_finalizers(
    skr: Client, resource: Resource[Any], live: JsonObject, owner: ApiObject, *, field_manager: str = FIELD_MANAGER
) -> None:
    """Let an object go, as it was read; one that went meanwhile is as good. Raises KubeError.

    `owner` is who brought it, for the log: what is taken off was somebody's promise to clean up.
    """
    metadata = live["metadata"]
    name, namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
    log.warning(
        "finalizers taken off",
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
