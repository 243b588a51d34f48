"""Whether an object exists, as the API server states it: the one place where absence is decided.

Objects are deleted, forgotten and called done because they, or others, do not exist. So that is a statement of the
server about an address that is valid now, and never what could not be found. The version in which an object was
recorded is no part of its identity, and its kind may have been created anew with another scope.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.apply.refusals import conversion_failure
from kube_runtime.client.client import Client
from kube_runtime.exceptions import Forbidden, KindUnknown, KubeError, NotFound
from kube_runtime.resource import JsonObject, Resource, is_storable

T = TypeVar("T")


class ExistingObject(NamedTuple):
    """An object, and the resource that serves it now."""

    resource: Resource[JsonObject]
    live: JsonObject


async def find_object(client: Client, entry: InventoryEntry) -> ExistingObject | None:
    """Read an object in whatever version the server serves; None where the server states that it does not exist.

    That is so where it says so of this object, serves its kind in no version, or serves it with another scope: a kind
    keeps its scope until it is deleted, with all its objects. Raises KubeError where it is not known.
    """
    if not is_storable(entry.name) or (entry.namespace and not is_storable(entry.namespace)):
        return None

    for is_last in (False, True):
        resource = await client.mapper.served(entry.api_version, entry.kind)
        if resource is None:
            return None
        if resource.namespaced == bool(entry.namespace):
            try:
                return ExistingObject(resource, await client.get(resource, entry.name, entry.namespace or None))
            except NotFound:
                return None
            except KindUnknown:
                if is_last:
                    raise
        client.mapper.recheck(resource.api_version)  # it may be known from before it was created anew
    return None


async def look_up(client: Client, entry: InventoryEntry) -> dict[InventoryEntry, JsonObject | None]:
    """Return an object by its entry, nothing where it does not exist. Raises KubeError.

    None stands for one that may not be read, or that nobody converts.
    """
    try:
        found = await find_object(client, entry)
    except KubeError as error:
        if isinstance(error, Forbidden) or conversion_failure(error):
            return {entry: None}
        raise
    return {entry: found.live} if found is not None else {}


async def read_kind(
    client: Client, api_version: str, kind: str, read: Callable[[Resource[JsonObject]], Awaitable[T]]
) -> T | None:
    """Read something of a kind in whatever version the server serves.

    None where the server states that it has no such kind, and so no object of it. A kind that is not served as it was
    known, as it was created anew, is looked up again. Raises KubeError.
    """
    resource = await client.mapper.served(api_version, kind)
    if resource is None:
        return None
    try:
        return await read(resource)
    except KindUnknown:
        resource = await client.mapper.served(api_version, kind)
    return await read(resource) if resource is not None else None


async def kind_is_gone(client: Client, resource: Resource[Any]) -> bool:
    """Tell, after KindUnknown, whether the server states that it has no such kind at all. Raises KubeError."""
    return await client.mapper.served(resource.api_version, resource.kind) is None
