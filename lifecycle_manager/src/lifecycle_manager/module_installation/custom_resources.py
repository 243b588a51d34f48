"""Which objects of a module's kinds are in a cluster: with their definition they would go as well."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kube_runtime import Client, InventoryEntry, JsonObject, KindUnknown, NotFound, Resource
from lifecycle_manager.module_installation.module_cr import DefaultCr, owner_of
from lifecycle_manager.module_installation.rendering import CRD_GROUP, CRD_KIND
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS
from lifecycle_manager_api import Manifest, names

MOST_NAMED = 10


class ModuleCr(NamedTuple):
    """One object of a module's kinds."""

    resource: Resource[JsonObject]
    namespace: str
    name: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What tells it from all others, as an inventory has it."""
        return (self.resource.group, self.resource.kind, self.namespace, self.name)

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {where}"


def is_definition(entry: InventoryEntry) -> bool:
    """Tell whether an object is a CustomResourceDefinition."""
    return (entry.group, entry.kind) == (CRD_GROUP, CRD_KIND)


def definition_of(resource: Resource[JsonObject]) -> InventoryEntry:
    """Name the CustomResourceDefinition of a kind."""
    return InventoryEntry(CRD_GROUP, "v1", CRD_KIND, "", f"{resource.plural}.{resource.group}")


async def kinds_of(
    skr: Client, inventory: Collection[InventoryEntry], default: DefaultCr | None
) -> tuple[Resource[JsonObject], ...]:
    """Return a module's kinds: that of its default Module CR, and what definitions in the inventory define.

    Raises KubeError.
    """
    kinds: dict[tuple[str, str], Resource[JsonObject]] = {}
    if default is not None:
        try:
            resource = await skr.mapper.resource(default.api_version, default.kind)
            kinds[resource.group, resource.kind] = resource
        except KindUnknown:
            pass  # its definition is gone, and they with it
    for entry in inventory:
        if is_definition(entry) and (defined := await resource_defined_by(skr, entry.name)) is not None:
            kinds[defined.group, defined.kind] = defined
    return tuple(kinds.values())


async def made_for(
    skr: Client, manifest: Manifest, kinds: Iterable[Resource[JsonObject]], inventory: Collection[InventoryEntry]
) -> tuple[ModuleCr, ...]:
    """Return the default Module CRs that were made for a Manifest, be it for another version. Raises KubeError."""
    selector, owner = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}", owner_of(manifest)
    applied = {each.identity for each in inventory}
    found: list[ModuleCr] = []
    for resource in kinds:
        try:
            ours = (await skr.list(resource, label_selector=selector)).items
        except NotFound:
            continue  # not served (any more)
        found.extend(
            ModuleCr(resource, metadata.get("namespace", ""), metadata["name"])
            for metadata in (each["metadata"] for each in ours)
            if (metadata.get("annotations") or {}).get(names.OWNED_BY) == owner
        )
    return tuple(each for each in found if each.identity not in applied)


async def others_in_use(
    skr: Client, kinds: Iterable[Resource[JsonObject]], own: Collection[tuple[str, str, str, str]]
) -> tuple[str, ...]:
    """Name the objects of these kinds that are not the module's own. Raises KubeError."""
    return tuple([name for resource in kinds for name in await _objects_of(skr, resource, own)])


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


def listed(things: Collection[str]) -> str:
    """Return names of things as a message has them, not too many."""
    shown = ", ".join(list(things)[:MOST_NAMED])
    return shown if len(things) <= MOST_NAMED else f"{shown} and {len(things) - MOST_NAMED} more"


async def _objects_of(
    skr: Client, resource: Resource[JsonObject], own: Collection[tuple[str, str, str, str]]
) -> Iterable[str]:
    try:
        revisions = await skr.list_revisions(resource)
    except NotFound:
        return ()  # not served (any more)
    found = [ModuleCr(resource, each.metadata.namespace, each.metadata.name) for each in revisions]
    return [str(each) for each in found if each.identity not in own]
