"""Takes finalizers off what a module left behind, where nobody is there any more to do it. Off unless an option asks.

Only objects that are being deleted are touched, and only those of kinds that the module brought: its Module CR, and
the objects of the definitions in its inventory.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec
import structlog

from kube_runtime import Client, JsonObject, KindUnknown, NotFound, Resource
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, FIELD_MANAGER
from lifecycle_manager_api import Manifest

log = structlog.get_logger("kyma")


async def purge_finalizers(skr: Client, manifests: Iterable[Manifest]) -> None:
    """Strip the finalizers of what these Manifests brought and waits to be deleted. Raises KubeError."""
    for manifest in manifests:
        async for resource in _kinds_of(skr, manifest):
            for item in (await skr.list(resource)).items:
                metadata = item["metadata"]
                if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                    await _strip(skr, resource, metadata, manifest)


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


async def _strip(skr: Client, resource: Resource[JsonObject], metadata: JsonObject, manifest: Manifest) -> None:
    log.warning(
        "finalizers purged",
        manifest=manifest.metadata.name,
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
