"""Component descriptors in an OCI registry, where the Open Component Model keeps them.

A version of a component is an artifact: its repository is `<base>/component-descriptors/<component>`, its tag is the
version (with `.build-` for the `+` that no tag may have), and one of its layers is the descriptor. The local blobs that
a descriptor names are layers of the same artifact, wherever the component was before: so the descriptor is given the
place where it was found as its newest context.

A tag can be moved by everybody who may push. So who asks again names the digest that was found first.

OCM writes an image index in place of the artifact where a component has whole images among its resources. The artifact
is its first manifest, and the index is what the tag and the digest name.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from kyma_oci.credentials import Login, LoginFor
from kyma_oci.descriptor import ComponentVersion, DescriptorUnreadable, LookupFailed, component_of
from kyma_oci.packing import ArtifactManifest, ArtifactPart, context_of, repository_of, tag_of
from kyma_oci.problems import (
    UNREADABLE,
    AccessRefused,
    LayerNotFound,
    LayerTooLarge,
    SourceError,
    SourceNotAllowed,
    SourceUnreachable,
)
from kyma_oci.references import Artifact, artifact_in, content_digest, is_digest
from kyma_oci.registries import Registries
from kyma_oci.signatures.cosign import MAX_SIGNATURES, Cosigned, bundles_in, layers_in, signature_tag, signed_in

ReadYaml = Callable[[bytes, Artifact], Awaitable[object]]
"""Returns the YAML document that a layer holds. Raises SourceError, with the artifact in its message."""
NOT_CONFIGURED_SECONDS = 3600.0
_WITHOUT_REFERRERS_API = (AccessRefused, DescriptorUnreadable, LayerNotFound, SourceNotAllowed, SourceUnreachable)
_DESCRIPTORS = (
    "application/vnd.ocm.software.component-descriptor.",
    "application/vnd.gardener.cloud.cnudie.component-descriptor.",
)


class FoundDescriptor(NamedTuple):
    """A descriptor as JSON, the digest of its component's manifest, and the one that the tag names, "" if unknown."""

    descriptor: msgspec.Raw
    digest: str
    tagged: str


@dataclass(frozen=True, eq=False)
class Components:
    """The components below an address such as registry.example.com/modules; none where it is empty."""

    registries: Registries
    login_for: LoginFor
    read_yaml: ReadYaml
    address: str

    async def descriptor(self, wanted: ComponentVersion, pinned: str = "") -> FoundDescriptor:
        """Return the descriptor of a component's version, or the pinned one whatever the tag names.

        Raises LookupFailed.
        """
        if not self.address:
            message = "the option oci-registry-host names no registry where it could be looked up"
            raise LookupFailed(message, NOT_CONFIGURED_SECONDS)
        try:
            return await self._descriptor(wanted, pinned)
        except SourceError as error:
            raise LookupFailed(str(error), error.again_after_seconds) from None
        except DescriptorUnreadable as error:
            raise LookupFailed(str(error), SourceError.again_after_seconds) from None

    async def _descriptor(self, wanted: ComponentVersion, pinned: str) -> FoundDescriptor:
        artifact = artifact_in(self.address, repository_of(wanted.component), tag_of(wanted.version))
        login = await self.login_for(artifact.repository)
        top, tagged = await self._manifest(artifact, login, pinned)
        manifest = _decoded(top, artifact)
        if manifest.manifests:
            first = replace(artifact, digest=_digest_of(manifest.manifests[0], artifact))
            manifest = _decoded(await self.registries.pull(first, login), artifact)
        layer = artifact.layer(_descriptor_in(manifest, artifact))
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
        return FoundDescriptor(found, pinned or tagged, tagged)

    async def cosigned(self, wanted: ComponentVersion, digest: str) -> tuple[Cosigned, ...]:
        """Return what cosign signed for the artifact or index with this digest. Raises LookupFailed and Unverified."""
        try:
            artifact = artifact_in(self.address, repository_of(wanted.component), signature_tag(digest))
            login = await self.login_for(artifact.repository)
            return (*await self._beside(artifact, login), *await self._in_bundles(artifact, digest, login))
        except SourceError as error:
            raise LookupFailed(str(error), error.again_after_seconds) from None
        except DescriptorUnreadable as error:
            raise LookupFailed(str(error), SourceError.again_after_seconds) from None

    async def _beside(self, artifact: Artifact, login: Login | None) -> list[Cosigned]:
        """Return what cosign signed before it had bundles."""
        try:
            parts = layers_in(_decoded(await self.registries.pull(artifact, login), artifact))
            return [Cosigned(await self.registries.pull(artifact.layer(part), login), value) for part, value in parts]
        except LayerNotFound:
            return []

    async def _in_bundles(self, artifact: Artifact, digest: str, login: Login | None) -> list[Cosigned]:
        found: list[Cosigned] = []
        with suppress(LayerNotFound):
            for each in await self._bundles(artifact, digest, login):
                with suppress(LayerNotFound, LayerTooLarge):  # an attestation may be large
                    manifest = _decoded(await self.registries.pull(replace(artifact, digest=each), login), artifact)
                    bundles = [artifact.layer(part.digest) for part in manifest.layers if is_digest(part.digest)][:1]
                    found += [it for bundle in bundles for it in signed_in(await self.registries.pull(bundle, login))]
        return found

    async def _bundles(self, artifact: Artifact, digest: str, login: Login | None) -> list[str]:
        """Return the digests of what refers to a digest: as the registry knows or, where it does not, by a tag."""
        found: list[str] = []
        is_known = False
        try:
            async for page in self.registries.pages(replace(artifact, tag=digest, kind="referrers"), login):
                found += bundles_in(_decoded(page, artifact))
                is_known = True
        except _WITHOUT_REFERRERS_API:
            if is_known:
                raise
        if found:
            return found[-MAX_SIGNATURES:]
        tagged = await self.registries.pull(replace(artifact, tag=digest.replace(":", "-")), login)
        return bundles_in(_decoded(tagged, artifact))

    async def _manifest(self, artifact: Artifact, login: Login | None, pinned: str) -> tuple[bytes, str]:
        """Return the manifest, and the digest that its tag names; "" where that can't be told. Raises SourceError."""
        try:
            manifest = await self.registries.pull(artifact, login)
        except SourceError:
            if not pinned:
                raise
            return await self.registries.pull(replace(artifact, digest=pinned), login), ""
        tagged = content_digest(manifest)
        if pinned and pinned != tagged:
            manifest = await self.registries.pull(replace(artifact, digest=pinned), login)
        return manifest, tagged


def _decoded(manifest: bytes, artifact: Artifact) -> ArtifactManifest:
    try:
        return msgspec.json.decode(manifest, type=ArtifactManifest)
    except UNREADABLE:
        raise DescriptorUnreadable(f"{artifact} has no readable manifest") from None


def _descriptor_in(manifest: ArtifactManifest, artifact: Artifact) -> str:
    found = (each for each in manifest.layers if each.media_type.startswith(_DESCRIPTORS))
    return _digest_of(next(found, ArtifactPart()), artifact)


def _digest_of(part: ArtifactPart, artifact: Artifact) -> str:
    if not is_digest(part.digest):
        raise LayerNotFound(f"{artifact} has no component descriptor among its layers")
    return part.digest


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
