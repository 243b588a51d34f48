"""Finalizers: an object that is being deleted stays until its last one is removed.

Each write holds for the version of the object that was read.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

from kube_crds import ObjectMetadata
from kube_runtime.client.client import Client
from kube_runtime.exceptions import NotFound
from kube_runtime.informer.informer import Informer
from kube_runtime.resource import ObjectKey, Resource

T = TypeVar("T")


async def set_finalizers(
    client: Client, resource: Resource[T], metadata: ObjectMetadata, finalizers: Iterable[str], *, field_manager: str
) -> T:
    """Replace the finalizers, unless the object was written since it was read. Raises KubeError.

    Returns the API server's answer, for `informer.wrote(answer)`.
    """
    patch = {"metadata": {"finalizers": [*finalizers], "resourceVersion": metadata.resource_version}}
    return await client.merge_patch(resource, metadata.name, patch, metadata.namespace, field_manager=field_manager)


async def remove_finalizers(
    client: Client,
    resource: Resource[T],
    metadata: ObjectMetadata,
    *finalizers: str,
    field_manager: str,
    informer: Informer[T] | None = None,
) -> None:
    """Remove finalizers. An object that is being deleted is gone with its last one. Raises KubeError.

    The informer learns that it is gone, or what was written, before its watch shows it.
    """
    left = [name for name in metadata.finalizers if name not in finalizers]
    if len(left) == len(metadata.finalizers):
        return
    answer: T | None = None
    with suppress(NotFound):  # deleted meanwhile
        answer = await set_finalizers(client, resource, metadata, left, field_manager=field_manager)
    if informer is None:
        return
    if answer is None or (metadata.being_deleted and not left):
        informer.deleted(ObjectKey(metadata.namespace, metadata.name), metadata.resource_version)
    else:
        informer.wrote(answer)
