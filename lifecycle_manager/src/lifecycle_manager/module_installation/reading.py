"""Reads what the plan of a Manifest depends on from its SKR. Nothing here changes anything."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from kube_runtime import (
    Client,
    InventoryEntry,
    JsonObject,
    NotFound,
    Readiness,
    Resource,
    find_object,
    goes_with,
    read_kind,
)
from kube_runtime.apply.contents import FirstNames, kind_in, summed
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS
from lifecycle_manager.module_catalog.module_kinds import is_named_by, why_foreign
from lifecycle_manager.module_installation.module_cr import DefaultCr, owner_of
from lifecycle_manager.object_set.inventory import CRD_GROUP, CRD_KIND, Identity, identities, is_crd, name_of
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.workloads import readiness_with_pods
from lifecycle_manager_api import Manifest, names


class KindObject(NamedTuple):
    resource: Resource[JsonObject]
    namespace: str
    name: str

    @property
    def identity(self) -> Identity:
        """Its identity, as an inventory has it."""
        return (self.resource.group, self.resource.kind, self.namespace, self.name)

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {where}"


class ManagerView(NamedTuple):
    """An object that runs a module, and its readiness; None where it does not exist."""

    name: str
    readiness: Readiness | None


def crd_of(resource: Resource[JsonObject]) -> InventoryEntry:
    """Return the CustomResourceDefinition of a kind as an inventory entry."""
    return InventoryEntry(CRD_GROUP, "v1", CRD_KIND, "", f"{resource.plural}.{resource.group}")


def foreign_kind(seen: SetSnapshot[Manifest], others: Iterable[Holder], resource: Resource[JsonObject]) -> str:
    """Return why a module may not have its default Module CR of a kind; empty where it may.

    Its CRD is one of the module's objects, and of no module that was there before, or its ModulePolicy names the kind.
    """
    crd, manifest = crd_of(resource).identity, seen.resource
    if is_named_by(seen.rules.spec if seen.rules is not None else None, resource):
        return ""
    if crd not in identities(seen.inventory):
        return why_foreign(resource, module="the module")
    since = (str(manifest.metadata.creation_timestamp), manifest.metadata.name)
    for other in others:
        if crd in other.has and (str(other.created), other.key.name) < since:
            return why_foreign(resource, module="the module", owner=f"Manifest {other.key.name}")
    return ""


async def own_kind(
    skr: Client, seen: SetSnapshot[Manifest], others: Iterable[Holder], default: DefaultCr
) -> Resource[JsonObject] | None:
    """Return the kind of a default Module CR; None where it is not served, or not the module's. Raises KubeError."""
    resource = await skr.mapper.served(default.api_version, default.kind)
    return None if resource is None or foreign_kind(seen, others, resource) else resource


async def module_kinds(
    skr: Client, inventory: Collection[InventoryEntry], default: Resource[JsonObject] | None
) -> tuple[Resource[JsonObject], ...]:
    """Return a module's kinds: that of its default Module CR, and those of the CRDs in its inventory.

    Raises KubeError.
    """
    kinds = {(default.group, default.kind): default} if default is not None else {}
    for entry in inventory:
        if is_crd(entry) and (defined := await kind_defined_by(skr, entry.name)) is not None:
            kinds[defined.group, defined.kind] = defined
    return tuple(kinds.values())


async def default_crs(
    skr: Client,
    manifest: Manifest,
    wanted: DefaultCr | None,
    kinds: Collection[Resource[JsonObject]],
    inventory: Collection[InventoryEntry],
) -> tuple[tuple[KindObject, JsonObject], ...]:
    """Return the default Module CR, and those that earlier versions had in its place, that exist. Raises KubeError."""
    if manifest.spec.custom_resource_policy != "CreateAndDelete":
        return ()
    default = [
        KindObject(each, wanted.namespace_in(each), wanted.name)
        for each in kinds
        if wanted is not None and (each.group, each.kind) == (wanted.group, wanted.kind)
    ]
    created = await _created_for(skr, manifest, kinds, inventory)
    found = [(each, await read(skr, each)) for each in dict.fromkeys((*default, *created))]
    return tuple((each, live) for each, live in found if live is not None)


async def read(skr: Client, cr: KindObject) -> JsonObject | None:
    """Return a Module CR, None where it does not exist. Raises KubeError."""
    resource = cr.resource
    entry = InventoryEntry(resource.group, resource.version, resource.kind, cr.namespace, cr.name)
    found = await find_object(skr, entry)
    return found.live if found is not None else None


async def objects_of_kinds(
    skr: Client, kinds: Iterable[Resource[JsonObject]], own: Collection[Identity], owners: Collection[str]
) -> tuple[str, ...]:
    """Name the objects of these kinds that neither are the module's own nor have these owners. Raises KubeError.

    What a controller has made of the module's own is not named: it goes with them. Of many the first are named.
    """
    return summed([await _objects_of(skr, resource, own, owners) for resource in kinds])


async def kind_defined_by(skr: Client, crd: str) -> Resource[JsonObject] | None:
    """Return the kind that a CRD defines, in a version that is served; None where the CRD is gone.

    Of one that serves no version, in the version that it stores: its objects can't be listed. Raises KubeError.
    """
    try:
        return kind_in(await skr.get(CUSTOM_RESOURCE_DEFINITIONS, crd))
    except NotFound:
        return None


async def read_manager(skr: Client, entry: InventoryEntry, live: JsonObject | None = None) -> ManagerView:
    """Return the readiness of an object that runs a module; `live` is it as just read. Raises KubeError."""
    if live is None:
        found = await find_object(skr, entry)
        if found is None:
            return ManagerView(name_of(entry), None)
        live = found.live
    return ManagerView(name_of(entry), await readiness_with_pods(skr, entry, live))


async def _created_for(
    skr: Client, manifest: Manifest, kinds: Iterable[Resource[JsonObject]], inventory: Collection[InventoryEntry]
) -> tuple[KindObject, ...]:
    """Return the default Module CRs created for a Manifest, also by another version. Raises KubeError."""
    selector, owner = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}", owner_of(manifest)
    applied = {each.identity for each in inventory}
    found: list[KindObject] = []
    for each in kinds:
        ours = await read_kind(
            skr, each.api_version, each.kind, lambda resource: skr.list(resource, label_selector=selector)
        )
        found.extend(
            KindObject(each, metadata.get("namespace", ""), metadata["name"])
            for metadata in (each["metadata"] for each in (ours.items if ours is not None else ()))
            if (metadata.get("annotations") or {}).get(names.OWNED_BY) == owner
        )
    return tuple(each for each in found if each.identity not in applied)


class _Annotations(msgspec.Struct, frozen=True):
    owner: str = msgspec.field(name=names.OWNED_BY, default="")


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    annotations: _Annotations = _Annotations()
    owner_references: list[Any] | None = None


class _Owned(msgspec.Struct, frozen=True):
    """What is read of objects of any kind."""

    metadata: _Metadata


async def _objects_of(
    skr: Client, kind: Resource[JsonObject], own: Collection[Identity], owners: Collection[str]
) -> FirstNames:
    async def named(resource: Resource[Any]) -> FirstNames:
        found = FirstNames()
        typed = replace(resource, type=_Owned)
        async for listed in skr.each_metadata(typed):
            each = listed.metadata
            thing = KindObject(kind, each.namespace, each.name)
            is_gone_with = goes_with(own, each.namespace, each.owner_references)
            if each.annotations.owner not in owners and not is_gone_with and thing.identity not in own:
                found.add(str(thing))
        return found

    return await read_kind(skr, kind.api_version, kind.kind, named) or FirstNames()
