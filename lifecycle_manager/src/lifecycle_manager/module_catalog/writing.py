"""Writes of Manifests in KCP."""

from collections.abc import Mapping

import msgspec

from kube_runtime import Client, Informer, NotFound, ObjectKey
from kube_runtime.apply.former_managers import merged_into
from lifecycle_manager.contract.former import is_former, marks
from lifecycle_manager.contract.resources import FIELD_MANAGER, MANIFESTS, RAW_MANIFESTS
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager_api import Manifest, as_document, joined_name, names


async def apply_manifest(kcp: Client, manifests: Informer[Manifest], manifest: Manifest) -> None:
    """Apply a Manifest without its status. Raises KubeError."""
    metadata = manifest.metadata
    manifest = named_apart(manifest, manifests.get(ObjectKey(metadata.namespace, metadata.name)))
    held = manifests.get(ObjectKey(metadata.namespace, manifest.metadata.name))
    if held is not None and any(map(is_former, held.metadata.finalizers)):
        await _take_fields_over(kcp, held)
    document = {key: value for key, value in as_document(manifest).items() if key != "status"}
    name, namespace = manifest.metadata.name, manifest.metadata.namespace
    is_to_be_managed = names.IS_UNMANAGED not in manifest.metadata.annotations
    if held is not None and names.IS_UNMANAGED in held.metadata.annotations and is_to_be_managed:  # no apply removes it
        patch = {"metadata": {"annotations": {names.IS_UNMANAGED: None}}}
        await kcp.merge_patch(MANIFESTS, name, patch, namespace, field_manager=FIELD_MANAGER)
    manifests.wrote(await kcp.apply(MANIFESTS, name, document, namespace, field_manager=FIELD_MANAGER))


async def _take_fields_over(kcp: Client, held: Manifest) -> None:
    """Own what the former version applied, so that this apply removes fields. Raises KubeError.

    It is listed by its name: its Role has no `get` (rbac/kcp.yaml).
    """
    name, namespace = held.metadata.name, held.metadata.namespace
    listed = await kcp.list(RAW_MANIFESTS, namespace, field_selector=f"metadata.name={name}")
    try:
        for live in listed.items:
            fields = merged_into(FIELD_MANAGER, live, marks().field_managers)
            if fields is not None:
                patch = {"metadata": {"managedFields": fields, "resourceVersion": live["metadata"]["resourceVersion"]}}
                await kcp.merge_patch(RAW_MANIFESTS, name, patch, namespace, field_manager=FIELD_MANAGER)
    except NotFound:
        return  # deleted meanwhile: the apply creates it anew


def named_apart(manifest: Manifest, held: Manifest | None) -> Manifest:
    """Return a Manifest with a name of its own where another Kyma and module have its name.

    Kyma `a` with module `b-c` and Kyma `a-b` with module `c` have one usual name.
    """
    owner = (kyma_of_manifest(manifest), module_of_manifest(manifest))
    if held is None or (kyma_of_manifest(held), module_of_manifest(held)) == owner:
        return manifest
    name = joined_name(*owner, distinct_by="/".join(owner))
    return msgspec.structs.replace(manifest, metadata=msgspec.structs.replace(manifest.metadata, name=name))


async def delete_manifest(kcp: Client, name: str, namespace: str, marks: Mapping[str, str]) -> None:
    """Delete a Manifest in the foreground, so that the objects of the module are deleted first. Raises KubeError.

    `marks`: annotations that say why.
    """
    try:
        if marks:
            patch = {"metadata": {"annotations": {**marks}}}
            await kcp.merge_patch(MANIFESTS, name, patch, namespace, field_manager=FIELD_MANAGER)
        await kcp.delete(MANIFESTS, name, namespace, propagation="Foreground")
    except NotFound:
        return  # the cache was behind
