"""How one object names another."""

from lifecycle_manager_api.meta import Struct


class GroupVersionKind(Struct, frozen=True, kw_only=True):
    """A kind of object."""

    group: str
    version: str
    kind: str


class ManagerReference(Struct, frozen=True, kw_only=True):
    """The object by whose readiness a module's own is told."""

    group: str
    version: str
    kind: str
    name: str
    namespace: str = ""


class PartialMeta(Struct, frozen=True, kw_only=True):
    """As much of an object's metadata as a status shows."""

    name: str = ""
    namespace: str = ""
    generation: int = 0


class TrackingObject(Struct, frozen=True, kw_only=True):
    """An object that a module's status speaks of."""

    api_version: str = ""
    kind: str = ""
    metadata: PartialMeta = PartialMeta()


class ObjectReference(Struct, frozen=True, kw_only=True):
    """One object at one moment of its life."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None


class SyncedReference(Struct, frozen=True, kw_only=True):
    """An object that was brought to a cluster."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
