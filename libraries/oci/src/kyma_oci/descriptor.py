"""Component descriptors of the Open Component Model: where the objects of a module's version are.

Descriptors have one of two schemas, v2 and v3alpha1 (ocm.software). They are inline in the ModuleTemplate or, where it
has none, in the registry (`components`). The objects of a module are the resource named `raw-manifest`: a layer in the
component's own repository, named by its digest. A label on it may select the Secrets that the layer is pulled with.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec

from kyma_oci.problems import UNREADABLE
from kyma_oci.references import without_scheme

RAW_MANIFEST = "raw-manifest"
CONFIG = "config"
OCI_REGISTRY_CRED = "operator.kyma-project.io/oci-registry-cred"
"""The label on a resource whose value selects the Secrets that its layer is pulled with."""
TAR = "application/x-tar"
HASHED_NAMES = "sha256-digest"
"""The mapping that names a repository by the digest of the component's name, for registries with short paths."""
Json = dict[str, Any]
_EMPTY = frozenset({b"", b"{}", b"null"})


class DescriptorUnreadable(Exception):
    """The descriptor of a ModuleTemplate is not one of the Open Component Model."""


class DescriptorNotFound(DescriptorUnreadable):
    """The descriptor of a ModuleTemplate is empty, and is not found in the registry (yet)."""


class DescriptorUnverified(DescriptorNotFound):
    """Nothing proves who vouches for the descriptor of a ModuleTemplate, and its ModulePolicy requires that."""


class ComponentVersion(NamedTuple):
    """A version of a component of the Open Component Model."""

    component: str
    version: str

    def __str__(self) -> str:
        return f"{self.component}:{self.version}"


class LookupFailed(Exception):
    """A descriptor could not be read from the registry; retry after `again_after_seconds`."""

    def __init__(self, message: str, again_after_seconds: float) -> None:
        super().__init__(message)
        self.again_after_seconds = again_after_seconds


class Component(msgspec.Struct, frozen=True):
    """A component: name, version, and the digests of its layers by the name of their resource.

    The layers are in `repository`, under `path`, which is the name of the component there. `credentials` holds for a
    layer the labels of the Secrets that it is pulled with. `images` are the component's container images, `archives`
    the resources whose layer is a tar.
    """

    name: str
    version: str
    repository: str
    path: str
    layers: Mapping[str, str]
    credentials: Mapping[str, Mapping[str, str]] = {}
    images: tuple[str, ...] = ()
    archives: frozenset[str] = frozenset()

    def source(self, resource: str) -> Json | None:
        """Return the source of a resource as a Manifest's spec has it, None where the component has no such layer."""
        digest = self.layers.get(resource)
        if digest is None:
            return None
        kind = "oci-dir" if resource in self.archives else "oci-ref"
        source: Json = {"name": self.path, "ref": digest, "repo": without_scheme(self.repository), "type": kind}
        labels = self.credentials.get(resource)
        return source if labels is None else source | {"credSecretSelector": {"matchLabels": dict(labels)}}


def is_left_out(descriptor: msgspec.Raw) -> bool:
    """Tell whether the descriptor of a ModuleTemplate is empty, and has to be looked up."""
    return bytes(descriptor) in _EMPTY


def component_of(descriptor: msgspec.Raw) -> Component:
    """Parse a descriptor. Raises DescriptorUnreadable."""
    return _read(bytes(descriptor))


@lru_cache(maxsize=1024)
def _read(descriptor: bytes) -> Component:
    """Parse a descriptor once for all clusters that have the version."""
    try:
        document = msgspec.json.decode(descriptor, type=Json)
    except UNREADABLE as error:
        raise DescriptorUnreadable(f"spec.descriptor is not an object: {error}") from None
    if "apiVersion" in document and "component" in document:
        raise DescriptorUnreadable(
            "spec.descriptor has both component, of the schema v2, and apiVersion, of v3alpha1; keep one of the schemas"
        )
    return _version_3(document) if "apiVersion" in document else _version_2(document)


def _version_2(document: Json) -> Component:
    component = _mapping(document, "component", "spec.descriptor")
    return _component(component, component, component, "spec.descriptor.component")


def _version_3(document: Json) -> Component:
    if document["apiVersion"] != "ocm.software/v3alpha1":
        raise DescriptorUnreadable(
            f"unknown spec.descriptor.apiVersion {document['apiVersion']!r}; use ocm.software/v3alpha1"
        )
    metadata = _mapping(document, "metadata", "spec.descriptor")
    content = _mapping(document, "spec", "spec.descriptor") if document.get("spec") is not None else {}
    return _component(metadata, document, content, "spec.descriptor.metadata")


def _component(named: Json, located: Json, content: Json, where: str) -> Component:
    for key in ("name", "version"):
        if not isinstance(named.get(key), str) or not named[key]:
            raise DescriptorUnreadable(f"{where}.{key} is missing")
    layers: dict[str, str] = {}
    credentials: dict[str, Mapping[str, str]] = {}
    archives: set[str] = set()
    resources = [each for each in _objects(content, "resources") if isinstance(each.get("access"), dict)]
    for resource in resources:
        digest = resource["access"].get("localReference") or resource["access"].get("digest")
        if isinstance(digest, str) and isinstance(resource.get("name"), str):
            layers[resource["name"]] = digest
            if resource["access"].get("mediaType") == TAR:
                archives.add(resource["name"])
            if (labels := credentials_of(resource)) is not None:
                credentials[resource["name"]] = labels
    repository, path = location_of(located, named["name"])
    images = _images(resources)
    return Component(
        named["name"], named["version"], repository, path, layers, credentials, images, frozenset(archives)
    )


def _images(resources: Iterable[Json]) -> tuple[str, ...]:
    found = (each["access"].get("imageReference") for each in resources)
    return tuple(dict.fromkeys(each for each in found if isinstance(each, str) and each))


def credentials_of(resource: Json) -> Mapping[str, str] | None:
    """Return the labels of the Secrets that a resource is pulled with, None where it has no such label."""
    values = [each.get("value") for each in _objects(resource, "labels") if each.get("name") == OCI_REGISTRY_CRED]
    if not values:
        return None
    try:
        labels: Mapping[str, str] = msgspec.convert(values[0], Annotated[dict[str, str], msgspec.Meta(min_length=1)])
    except msgspec.ValidationError as error:
        where = f"the label {OCI_REGISTRY_CRED} on {resource['name']} of spec.descriptor"
        raise DescriptorUnreadable(f"{where} must be an object of labels that select Secrets: {error}") from None
    return labels


def location_of(located: Json, name: str) -> tuple[str, str]:
    """Return the registry of the component's newest repository context, and the path of the component there.

    Below the registry are the components: `references.layer_in` adds that part of the path.
    """
    contexts = _objects(located, "repositoryContexts")
    if not contexts:
        return "", name
    newest = contexts[-1]
    parts = [str(newest.get("baseUrl") or "").strip("/"), str(newest.get("subPath") or "").strip("/")]
    hashed = newest.get("componentNameMapping") == HASHED_NAMES
    path = hashlib.sha256(name.encode()).hexdigest() if hashed else name
    return "/".join(part for part in parts if part), path


def _objects(section: Json, key: str) -> list[Json]:
    found = section.get(key) or []
    if not isinstance(found, list):
        raise DescriptorUnreadable(f"{key} of spec.descriptor is not a list")
    return [each for each in found if isinstance(each, dict)]


def _mapping(document: Json, key: str, where: str) -> Json:
    found = document.get(key)
    if not isinstance(found, dict):
        raise DescriptorUnreadable(f"{where}.{key} is missing or not an object; supported schemas are v2 and v3alpha1")
    return found
