"""Whether a change is relevant: pure functions of one admission request."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from skr_watcher.admission import UNREADABLE, AdmissionRequest

HEARTBEAT = "HEARTBEAT"
OUR_METADATA = "operator.kyma-project.io/"
CANARY_ANNOTATION = f"{OUR_METADATA}canary"
CANARY_NAME = "canary"
MAX_CANARY_LENGTH = 64
APPLIER = "lifecycle-manager"
"""The field manager as which the control plane applies objects of modules."""
MAX_COMPARED_BYTES = 512 * 1024
CHUNK_BYTES = 64 * 1024


class _FieldsEntry(msgspec.Struct, frozen=True):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fieldsV1: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - its name in Kubernetes


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    managed_fields: tuple[_FieldsEntry, ...] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    status: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A relevant change. `resource_version` is the one of the object before the change, empty for a new object."""

    manager: str
    group: str
    version: str
    kind: str
    namespace: str
    name: str
    operation: str
    uid: str
    resource_version: str
    generation: int
    challenge: str = ""
    """What the control plane wrote into its canary, which the event returns."""

    @property
    def log_level(self) -> int:
        """The level at which it is logged: heartbeats at DEBUG."""
        return logging.DEBUG if self.operation == HEARTBEAT else logging.INFO

    @property
    def names_object(self) -> bool:
        """Whether it is a change of an object, and not a message of the Watcher itself."""
        return bool(self.kind)

    @property
    def facts(self) -> dict[str, str]:
        """What names the change in logs and traces."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "object_name": self.name,
            "operation": self.operation,
        }

    @property
    def size(self) -> int:
        """The number of characters in it. A change from a real API server has some hundreds, whatever the object."""
        texts = (self.manager, self.group, self.version, self.kind, self.namespace, self.name, self.uid)
        return sum(map(len, texts)) + len(self.resource_version) + len(self.challenge)

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Identifies the object, for one manager."""
        return (self.manager, self.group, self.kind, self.namespace, self.name)


def change_in(manager: str, request: AdmissionRequest) -> ObjectChange | None:
    """Return the relevant change of a request, or None.

    CREATE and DELETE are always relevant. An UPDATE is relevant if `spec` or the generation differs, which counts what
    is beside the spec, too (for the status subresource: `status`), if the deletion timestamp, finalizers, Kyma's own
    labels or annotations, or fields that the control plane has applied change, or if the object has no `spec`. A dry
    run is never relevant.
    """
    if request.dry_run or request.operation not in {"CREATE", "UPDATE", "DELETE"}:
        return None
    old, new = _decode(request.old_object), _decode(request.object)
    if request.operation == "UPDATE" and not _differs(old, new, request.sub_resource):
        return None
    known = old if request.operation != "CREATE" else new
    metadata = (known or _Object()).metadata
    # When a collection is deleted, the API server sends one request for each object, without its name. As the namespace
    # of a Namespace it gives the name of that, where nobody would find it.
    is_namespace = (request.kind.group, request.kind.kind) == ("", "Namespace")
    return ObjectChange(
        manager=manager,
        group=request.kind.group,
        version=request.kind.version,
        kind=request.kind.kind,
        namespace="" if is_namespace else request.namespace,
        name=request.name or metadata.name,
        operation=request.operation,
        uid=metadata.uid,
        resource_version="" if request.operation == "CREATE" else metadata.resource_version,
        generation=metadata.generation,
        challenge=_new_canary(old, new),
    )


def canary_in(manager: str, request: AdmissionRequest) -> ObjectChange | None:
    """Return the heartbeat that answers a dry run of the control plane's canary; None for every other dry run.

    The canary is an annotation that the control plane changes from time to time on one of its own objects. Its arrival
    proves that the API server of this cluster reaches the Watcher, without storing anything.
    """
    if not request.dry_run or request.operation != "UPDATE":
        return None
    old, new = _decode(request.old_object), _decode(request.object)
    challenge = _new_canary(old, new)
    return replace(heartbeat(manager, CANARY_NAME), challenge=challenge) if challenge else None


def heartbeat(manager: str, name: str) -> ObjectChange:
    """Return a heartbeat. Because of its name it does not replace a pending RESYNC."""
    return ObjectChange(manager, "", "", "", "", name, HEARTBEAT, "", "", 0)


def _new_canary(old: _Object | None, new: _Object | None) -> str:
    """Return the canary of an object where it is not the former one."""
    former, canary = _canary(old), _canary(new)
    return canary if canary != former and len(canary) <= MAX_CANARY_LENGTH else ""


def _canary(thing: _Object | None) -> str:
    return (thing.metadata.annotations or {}).get(CANARY_ANNOTATION, "") if thing is not None else ""


def _differs(old: _Object | None, new: _Object | None, subresource: str) -> bool:
    if old is None or new is None:
        return True
    if subresource == "status":
        return not _same(old.status, new.status)
    before, after = old.metadata, new.metadata
    return (
        new.spec is msgspec.UNSET
        or before.generation != after.generation
        or not _same(old.spec, new.spec)
        or before.deletion_timestamp != after.deletion_timestamp
        or (before.finalizers or ()) != (after.finalizers or ())
        or _ours(before.labels) != _ours(after.labels)
        or _ours(before.annotations) != _ours(after.annotations)
        or _applied(before) != _applied(after)
    )


def _same(one: msgspec.Raw | msgspec.UnsetType, other: msgspec.Raw | msgspec.UnsetType) -> bool:
    """Return whether two parts are equal."""
    if isinstance(one, msgspec.UnsetType) or isinstance(other, msgspec.UnsetType):
        return one is other
    before, after = memoryview(one), memoryview(other)
    if _same_bytes(before, after):
        return True
    if before.nbytes + after.nbytes > MAX_COMPARED_BYTES:
        return False  # decoded, they would take many times the memory; rather one event too many than one missed
    try:
        return bool(_value(one) == _value(other))
    except UNREADABLE:
        return False


def _same_bytes(one: memoryview, other: memoryview) -> bool:
    if one.nbytes != other.nbytes:
        return False
    return all(
        one[start : start + CHUNK_BYTES].tobytes() == other[start : start + CHUNK_BYTES].tobytes()
        for start in range(0, one.nbytes, CHUNK_BYTES)
    )


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _ours(entries: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (entries or {}).items() if key.startswith(OUR_METADATA)}


def _applied(metadata: _Metadata) -> list[bytes]:
    """Return which fields the control plane has applied; somebody who changes one of them takes it over."""
    return [
        bytes(each.fieldsV1)
        for each in metadata.managed_fields or ()
        if (each.manager, each.operation, each.subresource) == (APPLIER, "Apply", "")
    ]


def _decode(raw: msgspec.Raw) -> _Object | None:
    """Return the object; None if there is none or if it cannot be decoded."""
    try:
        return msgspec.json.decode(raw, type=_Object | None)
    except UNREADABLE:
        return None
