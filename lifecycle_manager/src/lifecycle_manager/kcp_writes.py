"""What every room writes of an object in the control plane beside its spec: its status, and what is in its metadata."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_runtime import Client, NotFound, Resource
from lifecycle_manager.resources import FIELD_MANAGER
from lifecycle_manager_api import ObjectMeta


async def write_status(
    kcp: Client,
    resource: Resource[Any],
    metadata: ObjectMeta,
    status: object,
    *,
    field_manager: str = FIELD_MANAGER,
) -> None:
    """Apply a status, or that part of it which is a field manager's to say. Raises KubeError."""
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": msgspec.to_builtins(status),
    }
    await kcp.apply(
        resource,
        metadata.name,
        document,
        metadata.namespace,
        field_manager=field_manager,
        subresource="status",
    )


async def set_finalizers(kcp: Client, resource: Resource[Any], metadata: ObjectMeta, finalizers: Iterable[str]) -> None:
    """Replace the finalizers, only if nobody else has written the object since it was read. Raises KubeError."""
    await patch_metadata(kcp, resource, metadata, finalizers_of(metadata, finalizers))


def finalizers_of(metadata: ObjectMeta, finalizers: Iterable[str]) -> dict[str, Any]:
    """Return what of the metadata to change for other finalizers; for any other version the server refuses it."""
    return {"finalizers": [*finalizers], "resourceVersion": metadata.resource_version}


async def let_go(kcp: Client, resource: Resource[Any], metadata: ObjectMeta, finalizer: str) -> None:
    """Take a finalizer off where it is there, and the object too. Raises KubeError."""
    left = [name for name in metadata.finalizers if name != finalizer]
    if len(left) == len(metadata.finalizers):
        return
    try:
        await set_finalizers(kcp, resource, metadata, left)
    except NotFound:
        return  # somebody else was faster


async def patch_metadata(
    kcp: Client,
    resource: Resource[Any],
    metadata: ObjectMeta,
    patch: Mapping[str, Any],
    *,
    field_manager: str = FIELD_MANAGER,
) -> None:
    """Change fields of an object's metadata; null removes one. Raises KubeError."""
    document = {"metadata": patch}
    await kcp.merge_patch(resource, metadata.name, document, metadata.namespace, field_manager=field_manager)
