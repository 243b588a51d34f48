"""Component descriptors in an OCI registry, where the Open Component Model keeps them.

A version of a component is an artifact: its repository is `<base>/component-descriptors/<component>`, its tag is the
version (with `.build-` for the `+` that no tag may have), and one of its layers is the descriptor. The local blobs that
a descriptor names are layers of the same artifact, wherever the component was before: so the descriptor is given the
place where it was found as its newest context.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from kube_runtime import ManifestInvalid, load_yaml, parse_aside
from lifecycle_manager.oci.descriptor import (
    COMPONENT_DESCRIPTORS,
    ComponentVersion,
    DescriptorUnreadable,
    LookupFailed,
    component_of,
)
from lifecycle_manager.oci.problems import LayerNotFound, ObjectsInvalid, SourceError
from lifecycle_manager.oci.references import Artifact, artifact_in, is_digest
from lifecycle_manager.oci.registry import Registries
from lifecycle_manager.oci.store import LoginFor
from lifecycle_manager.oci.unpacking import text_in, unpacking_size

NOT_CONFIGURED_SECONDS = 3600.0
_DESCRIPTORS = (
    "application/vnd.ocm.software.component-descriptor.",
    "application/vnd.gardener.cloud.cnudie.component-descriptor.",
)


class _Part(msgspec.Struct, rename="camel"):
    media_type: str = ""
    digest: str = ""


class _Manifest(msgspec.Struct):
    layers: list[_Part] = []


@dataclass(frozen=True, eq=False)
class Components:
    """The components below an address such as registry.example.com/modules; none where it is empty."""

    registries: Registries
    login_for: LoginFor
    address: str

    async def descriptor(self, wanted: ComponentVersion) -> msgspec.Raw:
        """Return the descriptor of a component's version as JSON. Raises LookupFailed."""
        if not self.address:
            message = "the option oci-registry-host names no registry where it could be looked up"
            raise LookupFailed(message, NOT_CONFIGURED_SECONDS)
        try:
            return await self._descriptor(wanted)
        except SourceError as error:
            raise LookupFailed(str(error), error.again_after_seconds) from None

    async def _descriptor(self, wanted: ComponentVersion) -> msgspec.Raw:
        path, tag = f"{COMPONENT_DESCRIPTORS}/{wanted.component}", wanted.version.replace("+", ".build-")
        artifact = artifact_in(self.address, path, tag)
        login = await self.login_for(artifact.repository)
        layer = artifact.layer(_digest_in(await self.registries.pull(artifact, login), artifact))
        content = await self.registries.pull(layer, login)
        document = await parse_aside(unpacking_size(content), _read, content, artifact)
        found = msgspec.Raw(msgspec.json.encode(_located(document, self.address)))
        try:
            component = component_of(found)
        except DescriptorUnreadable as error:
            raise ObjectsInvalid(f"{artifact}: {error}") from None
        if (component.name, component.version) != wanted:
            raise ObjectsInvalid(f"{artifact} holds the descriptor of {component.name}:{component.version}")
        return found


def _digest_in(manifest: bytes, artifact: Artifact) -> str:
    try:
        layers = msgspec.json.decode(manifest, type=_Manifest).layers
    except (msgspec.MsgspecError, UnicodeDecodeError):
        _refuse(artifact, "has no readable manifest")
    digest = next((each.digest for each in layers if each.media_type.startswith(_DESCRIPTORS)), "")
    if not is_digest(digest):
        raise LayerNotFound(f"{artifact} has no component descriptor among its layers")
    return digest


def _read(content: bytes, artifact: Artifact) -> dict[str, Any]:
    try:
        document = load_yaml(text_in(content, artifact))
    except ManifestInvalid as error:
        _refuse(artifact, f"has an unreadable descriptor: {error}")
    if not isinstance(document, dict):
        _refuse(artifact, "has a descriptor that is not an object")
    return document


def _located(document: dict[str, Any], address: str) -> dict[str, Any]:
    """Return a descriptor with the registry it was found in as its newest context."""
    here = {"type": "OCIRegistry", "baseUrl": address, "componentNameMapping": "urlPath"}
    if "apiVersion" in document:
        return {**document, "repositoryContexts": [*_contexts(document), here]}
    component = document.get("component")
    if not isinstance(component, dict):
        return document
    return {**document, "component": {**component, "repositoryContexts": [*_contexts(component), here]}}


def _contexts(section: dict[str, Any]) -> list[Any]:
    contexts = section.get("repositoryContexts")
    return contexts if isinstance(contexts, list) else []


def _refuse(artifact: Artifact, what: str) -> NoReturn:
    raise ObjectsInvalid(f"{artifact} {what}") from None
