"""Turns the text of a Module CR into the text of a SyncResource: decode, run the function, check, encode.

Nothing here accesses a cluster, so the test kit runs the code of production.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kube_runtime import ManifestInvalid, dump_yaml, load_yaml, parse_aside
from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import ModuleManager, SyncObject
from kyma_module_manager.exceptions import ModuleCrUnreadable, ObjectsRefused

__all__ = ["MAX_TEXT_BYTES", "Rendering", "decode_module_cr", "encode_objects", "render"]

T = TypeVar("T")

# An object may take 1.5 MiB in etcd: the text as JSON, with its lines escaped, and the status with every object's
# reference.
MAX_TEXT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rendering:
    """The objects that a function returned for a Module CR, and the same as YAML text."""

    objects: tuple[dict[str, Any], ...]
    text: str


async def render(manager: ModuleManager[T], context: ModuleContext) -> Rendering:
    """Run a manager on the Module CR in a context, with large texts outside the event loop. Raises SyncFailed."""
    text = context.module_config.spec.resource
    config = await parse_aside(len(text), decode_module_cr, manager.crd, text)
    objects = await manager.objects(config, context)
    return await parse_aside(_size_of(objects), encode_objects, objects)


def decode_module_cr(crd: type[T], text: str) -> T:
    """Decode the YAML text of a Module CR into the manager's type. Raises ModuleCrUnreadable."""
    try:
        document = load_yaml(text)
    except ManifestInvalid as error:
        raise ModuleCrUnreadable(f"the Module CR is not valid YAML: {error}") from error
    if not isinstance(document, dict):
        raise ModuleCrUnreadable("spec.resource of the ModuleConfig is not an object")
    try:
        return msgspec.convert(document, crd)
    except msgspec.ValidationError as error:
        raise ModuleCrUnreadable(f"the Module CR does not match {crd.__name__}: {error}") from error


def encode_objects(objects: Iterable[SyncObject]) -> Rendering:
    """Check that every object is identified and unique, and encode all as one text. Raises ObjectsRefused."""
    documents = tuple(_document(index, item) for index, item in enumerate(objects))
    seen: dict[tuple[str, str, str, str], int] = {}
    for index, document in enumerate(documents):
        first = seen.setdefault(_identity(document), index)
        if first != index:
            raise ObjectsRefused(f"objects {first} and {index} are duplicates: {_label(document)}")
    text = "---\n".join(dump_yaml(document) for document in documents)
    if (size := len(msgspec.json.encode(text))) > MAX_TEXT_BYTES:
        raise ObjectsRefused(f"{len(documents)} objects take {size} bytes, more than the maximum of {MAX_TEXT_BYTES}")
    return Rendering(documents, text)


def _size_of(objects: tuple[SyncObject, ...]) -> int:
    try:
        return len(msgspec.json.encode(objects))
    except (TypeError, ValueError, RecursionError):
        return 0  # refused for the same reason when they become a text


def _document(index: int, item: SyncObject) -> dict[str, Any]:
    document = msgspec.to_builtins(item)
    if not isinstance(document, dict):
        raise ObjectsRefused(f"object {index} is a {type(item).__name__}, not a mapping or struct")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    for field, value in (
        ("apiVersion", document.get("apiVersion")),
        ("kind", document.get("kind")),
        ("metadata.name", name),
    ):
        if not isinstance(value, str) or not value:
            raise ObjectsRefused(f"object {index} has no {field}")
    return document


def _identity(document: dict[str, Any]) -> tuple[str, str, str, str]:
    metadata = document["metadata"]
    group, _, _ = document["apiVersion"].rpartition("/")
    return group, document["kind"], metadata.get("namespace") or "", metadata["name"]


def _label(document: dict[str, Any]) -> str:
    _, kind, namespace, name = _identity(document)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
