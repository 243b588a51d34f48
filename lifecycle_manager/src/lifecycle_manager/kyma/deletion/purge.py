"""Removes finalizers from objects of a module that no controller cleans up any more. Off by default.

Only objects that are being deleted are changed: those in inventories, those of the kinds whose CRDs are in inventories,
and those of the kind of the default Module CR.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec

from kube_runtime import Client, JsonObject, KindUnknown, NotFound, Resource
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import Manifest, SyncResource

Owner = Manifest | SyncResource


async def purge_finalizers(skr: Client, owners: Iterable[Owner]) -> None:
    """Remove the finalizers of objects of these owners that are being deleted. Raises KubeError."""
    for owner in owners:
        await _purge_inventory(skr, owner)
        async for resource in _kinds_of(skr, owner):
            for item in (await skr.list(resource)).items:
                if is_held(item):
                    await strip_finalizers(skr, resource, item, owner)


async def _purge_inventory(skr: Client, owner: Owner) -> None:
    for entry in owner.status.synced:
        api_version = f"{entry.group}/{entry.version}" if entry.group else entry.version
        try:
            resource = await skr.mapper.resource(api_version, entry.kind)
            live = await skr.get(resource, entry.name, entry.namespace or None)
        except (KindUnknown, NotFound):
            continue
        if is_held(live):
            await strip_finalizers(skr, resource, live, owner)


async def _kinds_of(skr: Client, owner: Owner) -> AsyncIterator[Resource[JsonObject]]:
    """Return the kinds that a Manifest's module defines, and that of its default Module CR."""
    if not isinstance(owner, Manifest):
        return
    for entry in owner.status.synced:
        if entry.kind == CUSTOM_RESOURCE_DEFINITIONS.kind:
            try:
                crd = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, entry.name)
            except NotFound:
                continue
            spec = crd["spec"]
            version = next((each["name"] for each in spec["versions"] if each["served"]), None)
            if version is None:
                continue
            group, kind = spec["group"], spec["names"]["kind"]
            yield Resource.dynamic(group, version, kind, spec["names"]["plural"], spec["scope"] == "Namespaced")
    document = msgspec.json.decode(owner.spec.resource)
    if isinstance(document, dict):
        try:
            yield await skr.mapper.resource(str(document.get("apiVersion")), str(document.get("kind")))
        except KindUnknown:
            return
