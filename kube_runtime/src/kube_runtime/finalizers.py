"""Finalizers: an object that is being deleted stays until its last one is removed.

Each write holds for the version of the object that was read. Each returns the API server's answer, for
`informer.wrote(answer)`.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from kube_crds import ObjectMetadata
from kube_runtime.client.client import Client
from kube_runtime.exceptions import NotFound
from kube_runtime.resource import Resource

__all__ = ["finalizers_patch", "remove_finalizers", "set_finalizers"]

T = TypeVar("T")


async def set_finalizers(
    client: Client, resource: Resource[T], metadata: ObjectMetadata, finalizers: Iterable[str], *, field_manager: str
) -> T:
    """Replace the finalizers, unless the object was written since it was read. Raises KubeError."""
    patch = {"metadata": finalizers_patch(metadata, finalizers)}
    return await client.merge_patch(resource, metadata.name, patch, metadata.namespace, field_manager=field_manager)


def finalizers_patch(metadata: ObjectMetadata, finalizers: Iterable[str]) -> dict[str, Any]:
    """Return the patch of the metadata for other finalizers; the API server refuses it for any other version."""
    return {"finalizers": [*finalizers], "resourceVersion": metadata.resource_version}


async def remove_finalizers(
    client: Client, resource: Resource[T], metadata: ObjectMetadata, *finalizers: str, field_manager: str
) -> T | None:
    """Remove finalizers; return the object, or None where nothing was written or the object is gone. Raises KubeError.

    An object that is being deleted is removed with its last finalizer.
    """
    left = [name for name in metadata.finalizers if name not in finalizers]
    if len(left) == len(metadata.finalizers):
        return None
    try:
        answer = await set_finalizers(client, resource, metadata, left, field_manager=field_manager)
    except NotFound:
        return None  # deleted meanwhile
    return answer if left or not metadata.being_deleted else None
