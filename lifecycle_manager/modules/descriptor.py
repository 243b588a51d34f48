"""Where the objects of a module's version are found, as its Open Component Model descriptor says it.

Descriptors come in two schemas, v2 and v3alpha1 (ocm.software), inline in the ModuleTemplate or, where that leaves its
own empty, from the registry (`lookups`). The objects are the resource named `raw-manifest`: a layer in the component's
own repository, named by its digest.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

RAW_MANIFEST = "raw-manifest"
CONFIG = "config"
COMPONENT_DESCRIPTORS = "component-descriptors"
Json = dict[str, Any]
_LEFT_OUT = frozenset({b"", b"{}", b"null"})


class DescriptorUnreadable(Exception):
    """The descriptor of a ModuleTemplate is not one of the Open Component Model."""


class DescriptorNotFound(DescriptorUnreadable):
    """A ModuleTemplate leaves its descriptor out, and it is not found (yet)."""


class Component(msgspec.Struct, frozen=True):
    """A component as a descriptor says it: name, version, repository, and its layers by the name of their resource."""

    name: str
    version: str
    repository: str
    layers: Mapping[str, str]

    def source(self, resource: str) -> dict[str, str] | None:
        """Return the image reference of a resource, as a Manifest has it; None where there is none."""
        digest = self.layers.get(resource)
        if digest is None:
            return None
        return {"name": self.name, "ref": digest, "repo": self.repository, "type": "oci-ref"}


def is_left_out(descriptor: msgspec.Raw) -> bool:
    """Tell whether a ModuleTemplate leaves its descriptor to be looked up."""
    return bytes(descriptor) in _LEFT_OUT


def component_of(descriptor: msgspec.Raw) -> Component:
    """Read a descriptor. Raises DescriptorUnreadable with what is wrong."""
    return _read(bytes(descriptor))


@lru_cache(maxsize=1024)
def _read(descriptor: bytes) -> Component:
    """Read a descriptor once for all the clusters that have the version."""
    try:
        document = msgspec.json.decode(descriptor, type=Json)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DescriptorUnreadable(f"spec.descriptor is no object: {error}") from None
    return _version_3(document) if "apiVersion" in document else _version_2(document)


def _version_2(document: Json) -> Component:
    component = _mapping(document, "component", "spec.descriptor")
    return _component(component, component, component, "spec.descriptor.component")


def _version_3(document: Json) -> Component:
    if document["apiVersion"] != "ocm.software/v3alpha1":
        raise DescriptorUnreadable(
            f"spec.descriptor.apiVersion {document['apiVersion']!r} is not known; use ocm.software/v3alpha1"
        )
    metadata = _mapping(document, "metadata", "spec.descriptor")
    return _component(metadata, document, document.get("spec") or {}, "spec.descriptor.metadata")


def _component(named: Json, located: Json, content: Json, where: str) -> Component:
    for key in ("name", "version"):
        if not isinstance(named.get(key), str) or not named[key]:
            raise DescriptorUnreadable(f"{where}.{key} is missing")
    layers = {}
    for resource in content.get("resources") or ():
        access = resource.get("access") if isinstance(resource, dict) else None
        digest = access.get("localReference") or access.get("digest") if isinstance(access, dict) else None
        if isinstance(digest, str) and isinstance(resource.get("name"), str):
            layers[resource["name"]] = digest
    return Component(named["name"], named["version"], _repository(located), layers)


def _repository(located: Json) -> str:
    """Return the repository that the component was last brought to: its newest context."""
    contexts = [each for each in located.get("repositoryContexts") or () if isinstance(each, dict)]
    if not contexts:
        return ""
    base = str(contexts[-1].get("baseUrl") or "")
    path = str(contexts[-1].get("subPath") or "")
    return "/".join(part.strip("/") for part in (base, path, COMPONENT_DESCRIPTORS) if part)


def _mapping(document: Json, key: str, where: str) -> Json:
    found = document.get(key)
    if not isinstance(found, dict):
        raise DescriptorUnreadable(f"{where}.{key} is missing; the schemas v2 and v3alpha1 are read")
    return found
