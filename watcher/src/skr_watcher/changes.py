"""Whether a change is worth telling: pure functions of one admission request."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from skr_watcher.admission import UNREADABLE, AdmissionRequest

HEARTBEAT = "HEARTBEAT"
OUR_METADATA = "operator.kyma-project.io/"
CANARY_ANNOTATION = f"{OUR_METADATA}canary"
CANARY_NAME = "canary"
LARGEST_COMPARED = 512 * 1024
PIECE = 64 * 1024


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


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    status: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change worth telling. `resource_version` is that of the object before it, empty for a new one."""

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

    @property
    def log_level(self) -> int:
        """How loudly its way is logged: a heartbeat that goes well is no news."""
        return logging.DEBUG if self.operation == HEARTBEAT else logging.INFO

    @property
    def letters(self) -> int:
        """How many letters there are in it. What an API server writes has hundreds, whatever the object."""
        texts = (self.manager, self.group, self.version, self.kind, self.namespace, self.name, self.uid)
        return sum(map(len, texts)) + len(self.resource_version)

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What tells this object from every other, for one manager."""
        return (self.manager, self.group, self.kind, self.namespace, self.name)


def change_in(manager: str, request: AdmissionRequest) -> ObjectChange | None:
    """Return the change that a request is about, or None where nobody needs to hear of it.

    CREATE and DELETE always count. An UPDATE counts when `spec` differs (for the status subresource: `status`), when
    deletion or finalizers change, when our own labels or annotations do, or when the object has no `spec`. A dry run
    never counts.
    """
    if request.dry_run or request.operation not in {"CREATE", "UPDATE", "DELETE"}:
        return None
    old, new = _decode(request.old_object), _decode(request.object)
    if request.operation == "UPDATE" and not _differs(old, new, request.sub_resource):
        return None
    known = old if request.operation != "CREATE" else new
    metadata = (known or _Object()).metadata
    # An API server that deletes a whole collection asks about each of its objects and names none in the request.
    return ObjectChange(
        manager=manager,
        group=request.kind.group,
        version=request.kind.version,
        kind=request.kind.kind,
        namespace=request.namespace,
        name=request.name or metadata.name,
        operation=request.operation,
        uid=metadata.uid,
        resource_version="" if request.operation == "CREATE" else metadata.resource_version,
        generation=metadata.generation,
    )


def canary_in(manager: str, request: AdmissionRequest) -> ObjectChange | None:
    """Return the sign of life that answers a dry run of the control plane's canary; None for every other dry run.

    The canary is an annotation that the control plane changes now and then on an object of its own. Seen here, it
    proves that the API server of this cluster reaches us, and nothing has to be stored for that.
    """
    if not request.dry_run or request.operation != "UPDATE":
        return None
    old, new = _decode(request.old_object), _decode(request.object)
    if new is None or _canary(new) is None or (old is not None and _canary(old) == _canary(new)):
        return None
    return heartbeat(manager, CANARY_NAME)


def heartbeat(manager: str, name: str) -> ObjectChange:
    """Return a sign of life. Its name keeps it from taking the place of a RESYNC that is still to be told."""
    return ObjectChange(manager, "", "", "", "", name, HEARTBEAT, "", "", 0)


def _canary(thing: _Object) -> str | None:
    return (thing.metadata.annotations or {}).get(CANARY_ANNOTATION)


def _differs(old: _Object | None, new: _Object | None, subresource: str) -> bool:
    if old is None or new is None:
        return True
    if subresource == "status":
        return not _same(old.status, new.status)
    before, after = old.metadata, new.metadata
    return (
        new.spec is msgspec.UNSET
        or not _same(old.spec, new.spec, counted=before.generation != after.generation)
        or before.deletion_timestamp != after.deletion_timestamp
        or (before.finalizers or ()) != (after.finalizers or ())
        or _ours(before.labels) != _ours(after.labels)
        or _ours(before.annotations) != _ours(after.annotations)
    )


def _same(
    one: msgspec.Raw | msgspec.UnsetType, other: msgspec.Raw | msgspec.UnsetType, *, counted: bool = False
) -> bool:
    """Tell whether two parts say the same. Where the API server has counted a change, other bytes are enough."""
    if isinstance(one, msgspec.UnsetType) or isinstance(other, msgspec.UnsetType):
        return one is other
    before, after = memoryview(one), memoryview(other)
    if _same_bytes(before, after):
        return True
    if counted or before.nbytes + after.nbytes > LARGEST_COMPARED:
        return False  # decoded they would take many times the room; told rather than missed
    try:
        return bool(_value(one) == _value(other))
    except UNREADABLE:
        return False


def _same_bytes(one: memoryview, other: memoryview) -> bool:
    if one.nbytes != other.nbytes:
        return False
    return all(
        one[start : start + PIECE].tobytes() == other[start : start + PIECE].tobytes()
        for start in range(0, one.nbytes, PIECE)
    )


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _ours(entries: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (entries or {}).items() if key.startswith(OUR_METADATA)}


def _decode(raw: msgspec.Raw) -> _Object | None:
    """Return an object, None where there is none, or one that nothing is known of where it can't be read."""
    try:
        return msgspec.json.decode(raw, type=_Object | None)
    except UNREADABLE:
        return None
