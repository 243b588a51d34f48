"""How one object names another."""

from lifecycle_manager_api.meta import Struct


class GroupVersionKind(Struct, frozen=True, kw_only=True):
    """A kind of object."""

    group: str
    """API group of the kind; empty for the core group."""
    version: str
    """API version of the kind."""
    kind: str
    """The kind, as it stands in its objects."""


class ManagerReference(Struct, frozen=True, kw_only=True):
    """The object that runs a module, a Deployment for instance; the module is ready when it is."""

    group: str
    """API group of the object; empty for the core group."""
    version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object; where it is left out, that of the module's own resources."""


class PartialMeta(Struct, frozen=True, kw_only=True):
    """As much of an object's metadata as a status shows."""

    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object."""
    generation: int = 0
    """Generation of the object that was looked at."""


class TrackingObject(Struct, frozen=True, kw_only=True):
    """An object that a module's status speaks of."""

    api_version: str = ""
    """Group and version of the object."""
    kind: str = ""
    """Kind of the object."""
    metadata: PartialMeta = PartialMeta()
    """Which object it is."""


class ObjectReference(Struct, frozen=True, kw_only=True):
    """One object at one moment of its life."""

    api_version: str
    """Group and version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object; empty for a cluster-scoped one."""
    name: str = ""
    """Name of the object."""
    uid: str = ""
    """UID of the object: another one of the same name has another UID."""
    resource_version: str = ""
    """Version of the object that was read."""
    generation: int | None = None
    """Generation of the object that was read."""


class SyncedReference(Struct, frozen=True, kw_only=True):
    """An object that was brought to a cluster."""

    group: str
    """API group of the object; empty for the core group."""
    version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str
    """Namespace of the object; empty for a cluster-scoped one."""
    name: str
    """Name of the object."""
