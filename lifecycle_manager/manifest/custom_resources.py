"""Which objects of a module's kinds are in a cluster: with their definition they would go as well."""

from collections.abc import Collection, Iterable

from kube_runtime import Client, InventoryEntry, JsonObject, KindUnknown, NotFound, Resource
from lifecycle_manager.manifest.module_cr import DefaultCr
from lifecycle_manager.manifest.rendering import CRD_GROUP, CRD_KIND
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS

MOST_NAMED = 10


def is_definition(entry: InventoryEntry) -> bool:
    """Tell whether an object is a CustomResourceDefinition."""
    return (entry.group, entry.kind) == (CRD_GROUP, CRD_KIND)


async def others_in_use(
    skr: Client, inventory: Collection[InventoryEntry], default: DefaultCr | None
) -> tuple[str, ...]:
    """Name the objects of a module's kinds that are not the module's own. Raises KubeError.

    Its kinds are that of the default Module CR, and those that definitions in the inventory define.
    """
    own = {(each.group, each.kind, each.namespace, each.name) for each in inventory}
    resources: dict[tuple[str, str], Resource[JsonObject]] = {}
    if default is not None:
        own.add((default.group, default.kind, default.namespace, default.name))
        try:
            resource = await skr.mapper.resource(default.api_version, default.kind)
            resources[resource.group, resource.kind] = resource
        except KindUnknown:
            pass  # its definition is gone, and they with it
    for entry in inventory:
        if is_definition(entry) and (defined := await resource_defined_by(skr, entry.name)) is not None:
            resources[defined.group, defined.kind] = defined
    found: list[str] = []
    for resource in resources.values():
        found.extend(await _objects_of(skr, resource, own))
    return tuple(found)


async def resource_defined_by(skr: Client, definition: str) -> Resource[JsonObject] | None:
    """Return what a definition defines, in the version that is stored; None where it is gone. Raises KubeError."""
    try:
        spec = (await skr.get(CUSTOM_RESOURCE_DEFINITIONS, definition))["spec"]
    except NotFound:
        return None
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    return Resource.dynamic(
        spec["group"], version, spec["names"]["kind"], spec["names"]["plural"], spec["scope"] == "Namespaced"
    )


async def objects_of(skr: Client, definition: str) -> tuple[str, ...]:
    """Name the objects of what a definition defines. Raises KubeError."""
    resource = await resource_defined_by(skr, definition)
    return tuple(await _objects_of(skr, resource, frozenset())) if resource is not None else ()


def listed(names: Collection[str]) -> str:
    """Return names as a message has them, not too many."""
    shown = ", ".join(list(names)[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"


async def _objects_of(
    skr: Client, resource: Resource[JsonObject], own: Collection[tuple[str, str, str, str]]
) -> Iterable[str]:
    try:
        revisions = await skr.list_revisions(resource)
    except NotFound:
        return ()  # not served (any more)
    found = [each.metadata for each in revisions]
    return [
        f"{resource.kind} {each.namespace}/{each.name}" if each.namespace else f"{resource.kind} {each.name}"
        for each in found
        if (resource.group, resource.kind, each.namespace, each.name) not in own
    ]
