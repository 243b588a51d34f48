"""Turns the text of a Module CR into the text of a SyncResource: decode, run the function, check, encode.

Nothing here accesses a cluster, so the test kit runs the code of production.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from kube_runtime import KubernetesObject, ManifestInvalid, dump_yaml, load_yaml, parse_aside, require_once, stored_size
from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import ModuleManager, SyncObject
from kyma_module_manager.exceptions import (
    ModuleCrUnreadable,
    ObjectsRefused,
    RenderingFailed,
    StatusRefused,
    SyncFailed,
)
from lifecycle_manager_api.conditions import counted
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES

T = TypeVar("T")

DEFAULT_NAMESPACE = "default"
"""Where Lifecycle Manager puts an object of a SyncResource that names no namespace."""
MANAGED_FIELDS = frozenset({"state", "observedGeneration", "conditions"})
"""Fields of a Module CR's status that Lifecycle Manager writes."""
MAX_STATUS_BYTES = 16 * 1024
MAX_STATUS_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Rendering:
    """The objects that a function returned for a Module CR, the same as YAML text, and fields for its status."""

    objects: tuple[dict[str, Any], ...]
    text: str
    status: Mapping[str, Any] = field(default_factory=dict)


async def render(manager: ModuleManager[T], context: ModuleContext) -> Rendering:
    """Run a manager on the Module CR in a context, with large texts outside the event loop. Raises SyncFailed."""
    text = context.module_config.spec.resource
    config = await parse_aside(len(text), decode_module_cr, manager.crd, text)
    rendered = await manager.rendered(config, context)
    encoded = await parse_aside(_size_of(rendered.objects), encode_objects, rendered.objects)
    return replace(encoded, status=checked_status(rendered.status))


def decode_module_cr(crd: type[T], text: str) -> T:
    """Decode the YAML text of a Module CR into the manager's type. Raises ModuleCrUnreadable, RenderingFailed."""
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
    except SyncFailed:
        raise
    except Exception as error:  # of the type's own code
        raise RenderingFailed(f"{type(error).__name__}: {error}") from error


def encode_objects(objects: Iterable[SyncObject]) -> Rendering:
    """Check that every object is identified and unique, and encode all as one text. Raises ObjectsRefused."""
    documents = tuple(_document(index, item) for index, item in enumerate(objects))
    try:
        things = [KubernetesObject.of(document, index) for index, document in enumerate(documents)]
        require_once(things, lambda each: each.namespace or DEFAULT_NAMESPACE)
    except ManifestInvalid as error:
        raise ObjectsRefused(f"object {error.document_index}: {error.message}") from error
    text = "---\n".join(_yaml(index, document) for index, document in enumerate(documents))
    if stored_size(text) > MAX_TEXT_BYTES:  # of a large CRD, more than half is indentation
        text = "---\n".join(map(_json, documents))
    if (size := stored_size(text)) > MAX_TEXT_BYTES:
        raise ObjectsRefused(
            f"{counted(len(documents), 'object')} with {size} bytes, more than the maximum of {MAX_TEXT_BYTES}; "
            f"{size_advice(documents)}"
        )
    return Rendering(documents, text)


def size_advice(documents: Iterable[dict[str, Any]]) -> str:
    """Say which of the objects that are too large together is the largest, and what to do about it."""
    size, largest = max(((len(_json(each)), each) for each in documents), key=lambda pair: pair[0])
    return (
        f"the largest is {KubernetesObject.of(largest)} with {size}; move what does not depend on the Module CR, as "
        "CRDs and an operator, to the module's manifest"
    )


def _yaml(index: int, document: dict[str, Any]) -> str:
    try:
        text = dump_yaml(document)
        text.encode()  # half of a surrogate pair is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise ObjectsRefused(f"object {index}: {error}") from error
    return text


def _json(document: dict[str, Any]) -> str:
    """Return an object as one line of JSON, which is YAML too, in an order that does not depend on the function."""
    return f"{msgspec.json.encode(document, order='sorted').decode()}\n"


def checked_status(status: Mapping[str, Any] | msgspec.Struct) -> dict[str, Any]:
    """Return the fields for the status of a Module CR as plain values. Raises StatusRefused."""
    try:
        text = msgspec.json.encode(status)
        fields = msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise StatusRefused(f"status: {error}") from error
    if not isinstance(fields, dict):
        raise StatusRefused(f"status is a {type(status).__name__}, not a mapping or struct")
    if taken := sorted(MANAGED_FIELDS & fields.keys()):
        raise StatusRefused(f"status.{taken[0]} is written by Lifecycle Manager; use another name")
    if len(text) > MAX_STATUS_BYTES:
        raise StatusRefused(f"status has {len(text)} bytes, more than the maximum of {MAX_STATUS_BYTES}")
    if _depth(fields) > MAX_STATUS_DEPTH:
        raise StatusRefused(f"status is nested deeper than {MAX_STATUS_DEPTH} levels")
    return fields


def _depth(value: object) -> int:
    """Return how many levels of objects and lists a value has; the size of the value is bounded."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if below is None else 1 + max(map(_depth, below), default=0)


def _size_of(objects: Iterable[SyncObject]) -> int:
    try:
        return len(msgspec.json.encode(tuple(objects)))
    except (TypeError, ValueError, RecursionError):
        return 0  # refused for the same reason when they become a text


def _document(index: int, item: SyncObject) -> dict[str, Any]:
    try:
        document = msgspec.to_builtins(item, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ObjectsRefused(f"object {index}: {error}") from error
    if not isinstance(document, dict):
        raise ObjectsRefused(f"object {index} is a {type(item).__name__}, not a mapping or struct")
    return document
