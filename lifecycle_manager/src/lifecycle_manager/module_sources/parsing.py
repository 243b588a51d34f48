"""From the bytes of a layer to its objects or its document; large ones are parsed beside the event loop."""

import asyncio
from dataclasses import dataclass, field

from kube_runtime import KubernetesObject, ManifestInvalid, load_yaml, parse_aside, parse_manifest
from kyma_oci import Artifact, SourceError, text_in, unpacking_size
from lifecycle_manager.module_sources.references import Source

PARSING_SECONDS = 60.0


class ObjectsInvalid(SourceError):
    """The text holds no proper Kubernetes objects."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ModuleObjects:
    """The objects of a module, with the digest and the size of their text, and warnings about it."""

    digest: str
    objects: tuple[KubernetesObject, ...] = field(repr=False)
    size: int = 0
    warnings: tuple[str, ...] = ()


async def objects_in(source: Source, digest: str, content: bytes) -> ModuleObjects:
    """Return the objects in a layer or a file, within PARSING_SECONDS. Raises SourceError."""
    try:
        async with asyncio.timeout(PARSING_SECONDS):
            return await parse_aside(unpacking_size(content), _parse_objects, source, digest, content)
    except TimeoutError:
        raise ObjectsInvalid(f"{source} could not be parsed within {PARSING_SECONDS:g} s") from None


async def read_yaml(content: bytes, artifact: Artifact) -> object:
    """Return the document in a layer of an artifact. Raises SourceError."""
    return await parse_aside(unpacking_size(content), _parse_document, content, artifact)


def _parse_objects(source: Source, digest: str, content: bytes) -> ModuleObjects:
    text = text_in(content, source)
    try:
        objects, warnings = parse_manifest(text)
    except ManifestInvalid as error:
        raise ObjectsInvalid(f"{source}: {error}") from None
    return ModuleObjects(digest, objects, len(text), warnings)


def _parse_document(content: bytes, artifact: Artifact) -> object:
    try:
        document: object = load_yaml(text_in(content, artifact))
    except ManifestInvalid as error:
        raise ObjectsInvalid(f"{artifact} has an unreadable descriptor: {error}") from None
    return document
