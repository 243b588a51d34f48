"""Writes of Manifests in KCP."""

from kube_runtime import Client, Informer, NotFound
from lifecycle_manager.resources import FIELD_MANAGER, MANIFESTS
from lifecycle_manager_api import Manifest, as_document


async def apply_manifest(kcp: Client, manifests: Informer[Manifest], manifest: Manifest) -> None:
    """Apply a Manifest without its status. Raises KubeError."""
    document = {key: value for key, value in as_document(manifest).items() if key != "status"}
    name, namespace = manifest.metadata.name, manifest.metadata.namespace
    manifests.wrote(await kcp.apply(MANIFESTS, name, document, namespace, field_manager=FIELD_MANAGER))


async def delete_manifest(kcp: Client, name: str, namespace: str) -> None:
    """Delete a Manifest in the foreground, so that the objects of the module are deleted first. Raises KubeError."""
    try:
        await kcp.delete(MANIFESTS, name, namespace, propagation="Foreground")
    except NotFound:
        return  # the cache was behind
