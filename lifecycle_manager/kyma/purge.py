"""Takes finalizers off what a module left behind, where nobody is there any more to do it. Off unless an option asks.

Only objects that are being deleted are touched, and only those that the control plane brought or whose kind it brought:
what inventories name, and the objects of the definitions and of the Module CR among that.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec
import structlog

from kube_runtime import Client, JsonObject, KindUnknown, NotFound, Resource
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, FIELD_MANAGER
from lifecycle_manager_api import Manifest, SyncedObject, SyncedReference, SyncResource

Owner = Manifest | SyncResource
log = structlog.get_logger("kyma")


async def purge_finalizers(skr: Client, manifests: Iterable[Manifest]) -> None:
    """Strip the finalizers of what these Manifests brought and waits to be deleted. Raises KubeError."""
    for manifest in manifests:
        await _purge_named(skr, manifest.status.synced, manifest)
        async for resource in _kinds_of(skr, manifest):
            for item in (await skr.list(resource)).items:
                metadata = item["metadata"]
                if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                    await _strip(skr, resource, metadata, manifest)


async def purge_synced(skr: Client, sync_resources: Iterable[SyncResource]) -> None:
    """Strip the finalizers of what these SyncResources brought and waits to be deleted. Raises KubeError."""
    for each in sync_resources:
        await _purge_named(skr, each.status.synced, each)


async def _purge_named(skr: Client, entries: Iterable[SyncedReference | SyncedObject], owner: Owner) -> None:
    for entry in entries:
        api_version = f"{entry.group}/{entry.version}" if entry.group else entry.version
        try:
            resource = await skr.mapper.resource(api_version, entry.kind)
            metadata = (await skr.get(resource, entry.name, entry.namespace or None))["metadata"]
        except (KindUnknown, NotFound):
            continue
        if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
            await _strip(skr, resource, metadata, owner)


async def _kinds_of(skr: Client, manifest: Manifest) -> AsyncIterator[Resource[JsonObject]]:
    """Give the kinds that a module defines, and that of its default Module CR."""
    for entry in manifest.status.synced:
        if entry.kind == CUSTOM_RESOURCE_DEFINITIONS.kind:
            try:
                definition = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, entry.name)
            except NotFound:
                continue
            spec = definition["spec"]
            version = next((each["name"] for each in spec["versions"] if each["served"]), None)
            if version is None:
                continue
            group, kind = spec["group"], spec["names"]["kind"]
            yield Resource.dynamic(group, version, kind, spec["names"]["plural"], spec["scope"] == "Namespaced")
    document = msgspec.json.decode(manifest.spec.resource)
    if isinstance(document, dict):
        try:
            yield await skr.mapper.resource(str(document.get("apiVersion")), str(document.get("kind")))
        except KindUnknown:
            return


async def _strip(skr: Client, resource: Resource[JsonObject], metadata: JsonObject, owner: Owner) -> None:
    log.warning(
        "finalizers purged",
        owner=f"{owner.KIND} {owner.metadata.name}",
        kind=resource.kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        finalizers=metadata["finalizers"],
    )
    patch = {"metadata": {"finalizers": [], "resourceVersion": metadata["resourceVersion"]}}
    try:
        await skr.merge_patch(resource, metadata["name"], patch, metadata.get("namespace"), field_manager=FIELD_MANAGER)
    except NotFound:
        return  # it went meanwhile
