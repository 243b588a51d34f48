"""Component descriptors in an OCI registry, where the Open Component Model keeps them.

A version of a component is an artifact: its repository is `<base>/component-descriptors/<component>`, its tag is the
version (with `.build-` for the `+` that no tag may have), and one of its layers is the descriptor. The local blobs that
a descriptor names are layers of the same artifact, wherever the component was before: so the descriptor is given the
place where it was found as its newest context.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from kyma_oci.credentials import LoginFor
from kyma_oci.descriptor import ComponentVersion, DescriptorUnreadable, LookupFailed, component_of
from kyma_oci.packing import context_of, repository_of, tag_of
from kyma_oci.problems import UNREADABLE, LayerNotFound, SourceError
from kyma_oci.references import Artifact, artifact_in, is_digest
from kyma_oci.registries import Registries

ReadYaml = Callable[[bytes, Artifact], Awaitable[object]]
"""Returns the YAML document that a layer holds. Raises SourceError, with the artifact in its message."""
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
    read_yaml: ReadYaml
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
        except DescriptorUnreadable as error:
            raise LookupFailed(str(error), SourceError.again_after_seconds) from None

    async def _descriptor(self, wanted: ComponentVersion) -> msgspec.Raw:
        artifact = artifact_in(self.address, repository_of(wanted.component), tag_of(wanted.version))
        login = await self.login_for(artifact.repository)
        layer = artifact.layer(_digest_in(await self.registries.pull(artifact, login), artifact))
        document = await self.read_yaml(await self.registries.pull(layer, login), artifact)
        if not isinstance(document, dict):
            raise DescriptorUnreadable(f"{artifact} has a descriptor that is not an object")
        found = msgspec.Raw(msgspec.json.encode(_located(document, self.address)))
        try:
            component = component_of(found)
        except DescriptorUnreadable as error:
            raise DescriptorUnreadable(f"{artifact}: {error}") from None
        if (component.name, component.version) != wanted:
            raise DescriptorUnreadable(f"{artifact} holds the descriptor of {component.name}:{component.version}")
        return found


def _digest_in(manifest: bytes, artifact: Artifact) -> str:
    try:
        layers = msgspec.json.decode(manifest, type=_Manifest).layers
    except UNREADABLE:
        raise DescriptorUnreadable(f"{artifact} has no readable manifest") from None
    digest = next((each.digest for each in layers if each.media_type.startswith(_DESCRIPTORS)), "")
    if not is_digest(digest):
        raise LayerNotFound(f"{artifact} has no component descriptor among its layers")
    return digest


def _located(document: dict[str, Any], address: str) -> dict[str, Any]:
    """Return a descriptor with the registry it was found in as its newest context."""
    here = context_of(address)
    if "apiVersion" in document:
        return {**document, "repositoryContexts": [*_contexts(document), here]}
    component = document.get("component")
    if not isinstance(component, dict):
        return document
    return {**document, "component": {**component, "repositoryContexts": [*_contexts(component), here]}}


def _contexts(section: dict[str, Any]) -> list[Any]:
    contexts = section.get("repositoryContexts")
    return contexts if isinstance(contexts, list) else []
