"""Writes to status and metadata of objects in KCP, the same for every domain.

Each returns the API server's answer, for `informer.wrote(answer)`: the next reconcile reads its own writes, also while
the watch has not shown them yet.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kube_runtime import Client, NotFound, Resource
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager_api import ObjectMeta

T = TypeVar("T")


async def write_status(
    kcp: Client,
    resource: Resource[T],
    metadata: ObjectMeta,
    status: object,
    *,
    field_manager: str = FIELD_MANAGER,
) -> T:
    """Apply a status, or that part of it which a field manager owns. Raises KubeError."""
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": msgspec.to_builtins(status),
    }
    return await kcp.apply(
        resource,
        metadata.name,
        document,
        metadata.namespace,
        field_manager=field_manager,
        subresource="status",
    )


async def set_finalizers(kcp: Client, resource: Resource[T], metadata: ObjectMeta, finalizers: Iterable[str]) -> T:
    """Replace the finalizers, unless the object was written since it was read. Raises KubeError."""
    return await patch_metadata(kcp, resource, metadata, finalizers_of(metadata, finalizers))


def finalizers_of(metadata: ObjectMeta, finalizers: Iterable[str]) -> dict[str, Any]:
    """Return the patch of the metadata for other finalizers; the API server refuses it for any other version."""
    return {"finalizers": [*finalizers], "resourceVersion": metadata.resource_version}


async def remove_finalizer(kcp: Client, resource: Resource[T], metadata: ObjectMeta, *finalizers: str) -> T | None:
    """Remove finalizers; return the object, or None where nothing was written or the object is gone. Raises KubeError.

    An object that is being deleted is removed with its last finalizer.
    """
    left = [name for name in metadata.finalizers if name not in finalizers]
    if len(left) == len(metadata.finalizers):
        return None
    try:
        answer = await set_finalizers(kcp, resource, metadata, left)
    except NotFound:
        return None  # deleted meanwhile
    return answer if left or not metadata.being_deleted else None


async def patch_metadata(
    kcp: Client,
    resource: Resource[T],
    metadata: ObjectMeta,
    patch: Mapping[str, Any],
    *,
    field_manager: str = FIELD_MANAGER,
) -> T:
    """Change fields of an object's metadata; null removes one. Raises KubeError."""
    document = {"metadata": patch}
    return await kcp.merge_patch(resource, metadata.name, document, metadata.namespace, field_manager=field_manager)
