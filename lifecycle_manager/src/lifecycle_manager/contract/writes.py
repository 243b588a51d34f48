"""Writes to status and metadata of objects in KCP, the same for every domain.

The next reconcile reads its own writes, also while the watch has not shown them yet: a function gets the informer, or
returns the API server's answer for `informer.wrote(answer)`.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import msgspec

from kube_runtime import ApiError, Client, Conflict, Informer, Resource
from kube_runtime import finalizers as in_finalizers
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
    as_read: bool = False,
) -> T:
    """Apply a status, or that part of it which a field manager owns. Raises KubeError.

    `as_read`: Conflict is raised where somebody has written the object since it was read.
    """
    version = {"resourceVersion": metadata.resource_version} if as_read else {}
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace} | version,
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
    return await in_finalizers.set_finalizers(kcp, resource, metadata, finalizers, field_manager=FIELD_MANAGER)


async def remove_finalizers(kcp: Client, informer: Informer[T], metadata: ObjectMeta, *finalizers: str) -> None:
    """Remove finalizers. An object that is being deleted is gone with its last one. Raises KubeError."""
    await in_finalizers.remove_finalizers(
        kcp, informer.resource, metadata, *finalizers, field_manager=FIELD_MANAGER, informer=informer
    )


async def write_each(
    writes: Iterable[Awaitable[object]], refused: Callable[[ApiError], object] = lambda _: None
) -> None:
    """Make each of these writes, whether others are refused or not; `refused` is called for those that are.

    Raises KubeError: the first refusal once all were tried; a conflict, which is retried soon, only where it is alone.
    """
    refusals: list[ApiError] = []
    for write in writes:
        try:
            await write
        except ApiError as error:
            refused(error)
            refusals.append(error)
    if refusals:
        raise min(refusals, key=lambda error: isinstance(error, Conflict))
