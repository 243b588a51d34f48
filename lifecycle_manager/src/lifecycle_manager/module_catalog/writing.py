"""Writes Manifests in the control plane."""

from kube_runtime import Client, NotFound
from lifecycle_manager.resources import FIELD_MANAGER, MANIFESTS
from lifecycle_manager_api import Manifest, as_document


async def apply_manifest(kcp: Client, manifest: Manifest) -> None:
    """Write a Manifest as it is wanted; its status is for another to write. Raises KubeError."""
    document = {key: value for key, value in as_document(manifest).items() if key != "status"}
    name, namespace = manifest.metadata.name, manifest.metadata.namespace
    await kcp.apply(MANIFESTS, name, document, namespace, field_manager=FIELD_MANAGER)


async def delete_manifest(kcp: Client, name: str, namespace: str) -> None:
    """Delete a Manifest in the foreground, so that what the module consists of goes first. Raises KubeError."""
    try:
        await kcp.delete(MANIFESTS, name, namespace, propagation="Foreground")
    except NotFound:
        return  # the cache was behind
