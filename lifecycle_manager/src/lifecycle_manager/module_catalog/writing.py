"""Writes of Manifests in KCP."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from kube_runtime import Client, Informer, NotFound, ObjectKey
from kube_runtime.apply.field_sets import Entry, fields_of, moved, ownership_patch
from lifecycle_manager.contract.resources import FIELD_MANAGER, MANIFESTS, RAW_MANIFESTS
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest, spec_differs
from lifecycle_manager_api import Manifest, as_document, joined_name, names


async def apply_manifest(kcp: Client, manifests: Informer[Manifest], manifest: Manifest) -> None:
    """Apply a Manifest without its status. Raises KubeError."""
    metadata = manifest.metadata
    manifest = named_apart(manifest, manifests.get(ObjectKey(metadata.namespace, metadata.name)))
    held = manifests.get(ObjectKey(metadata.namespace, manifest.metadata.name))
    document = {key: value for key, value in as_document(manifest).items() if key != "status"}
    name, namespace = manifest.metadata.name, manifest.metadata.namespace
    if held is not None and names.IS_UNMANAGED in held.metadata.annotations:  # no apply removes it
        patch = {"metadata": {"annotations": {names.IS_UNMANAGED: None}}}
        await kcp.merge_patch(MANIFESTS, name, patch, namespace, field_manager=FIELD_MANAGER)
    written = await kcp.apply(MANIFESTS, name, document, namespace, field_manager=FIELD_MANAGER)
    if spec_differs(written.spec, manifest.spec):  # others wrote it: a former version, an editor, a backup
        await _take_fields_over(kcp, name, namespace)
        written = await kcp.apply(MANIFESTS, name, document, namespace, field_manager=FIELD_MANAGER)
    manifests.wrote(written)


async def _take_fields_over(kcp: Client, name: str, namespace: str) -> None:
    """Own what others have in the spec but images, so that the next apply removes fields. Raises KubeError.

    It is read by a patch of nothing: its Role has no `get` (rbac/kcp.yaml).
    """
    with suppress(NotFound):  # deleted meanwhile: the apply creates it anew
        live = await kcp.merge_patch(RAW_MANIFESTS, name, {}, namespace, field_manager=FIELD_MANAGER)
        if (fields := moved(FIELD_MANAGER, live, _spec_of)) is not None:
            patch = ownership_patch(live, fields)
            await kcp.merge_patch(RAW_MANIFESTS, name, patch, namespace, field_manager=FIELD_MANAGER)


def _spec_of(entry: Entry) -> Entry | None:
    spec = {key: each for key, each in fields_of(entry).get("f:spec", {}).items() if key != "f:localizedImages"}
    return {"f:spec": spec} if spec else None


def named_apart(manifest: Manifest, held: Manifest | None) -> Manifest:
    """Return a Manifest with a name of its own where another Kyma and module have its name.

    Kyma `a` with module `b-c` and Kyma `a-b` with module `c` have one usual name. One that says nothing else has lost
    its labels: they are written again.
    """
    owner = (kyma_of_manifest(manifest), module_of_manifest(manifest))
    known = (kyma_of_manifest(held), module_of_manifest(held)) if held is not None else ("", "")
    if all(said in {"", own} for said, own in zip(known, owner, strict=True)):
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
