"""Waiting for a CustomResourceDefinition to be served, by watching it."""

import asyncio
from contextlib import aclosing

from kube_runtime.apply.readiness import condition_of, lacks_names_alone
from kube_runtime.client.client import Client
from kube_runtime.exceptions import ApiError, ClusterUnreachable
from kube_runtime.resource import JsonObject, Resource

ESTABLISHED_SECONDS = 15.0
RETRY_SECONDS = 0.5
"""The pause after a watch without a change. Some servers end each at once."""


async def wait_established(client: Client, resource: Resource[JsonObject], crd: JsonObject) -> JsonObject:
    """Return the CRD once its kind is served. Raises ClusterUnreachable at the deadline, ApiError if it is refused."""
    name = crd["metadata"]["name"]
    try:
        async with asyncio.timeout(ESTABLISHED_SECONDS):
            while not _is_settled(crd):
                version, crd = crd["metadata"]["resourceVersion"], {}  # dozens are waited for, and none is kept
                crd = await _changed(client, resource, name, version)
    except TimeoutError:
        raise ClusterUnreachable(f"{name} was not established within {ESTABLISHED_SECONDS:g} s") from None
    if _status_of(crd, "NamesAccepted") == "False" and not lacks_names_alone(crd):
        raise ApiError(409, "NamesNotAccepted", f"the names of {name} are taken already")
    return crd


async def _changed(client: Client, resource: Resource[JsonObject], name: str, version: str) -> JsonObject:
    """Return a CRD once it is another version, or the server has ended the watch."""
    changes = client.watch(resource, resource_version=version, field_selector=f"metadata.name={name}")
    async with aclosing(changes):
        async for event in changes:
            if event.object is not None:
                return event.object
    await asyncio.sleep(RETRY_SECONDS)
    return await client.get(resource, name)


def _is_settled(crd: JsonObject) -> bool:
    return _status_of(crd, "Established") == "True" or _status_of(crd, "NamesAccepted") == "False"


def _status_of(crd: JsonObject, kind: str) -> str:
    return str(condition_of(crd, kind).get("status", "Unknown"))
