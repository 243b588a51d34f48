"""References from one object to another."""

from kube_crds import Struct


class GroupVersionKind(Struct, frozen=True, kw_only=True):
    """A kind of object."""

    group: str
    """API group of the kind; empty for the core group."""
    version: str
    """API version of the kind."""
    kind: str
    """The kind."""


class ManagerReference(Struct, frozen=True, kw_only=True):
    """The object that runs a module, for example a Deployment; the module is ready when the object is."""

    group: str
    """API group of the object; empty for the core group."""
    version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object; left out, that of the module's resources."""


class PartialMeta(Struct, frozen=True, kw_only=True):
    """The metadata of an object in a status."""

    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object."""
    generation: int = 0
    """Observed generation of the object."""


class TrackingObject(Struct, frozen=True, kw_only=True):
    """Reference to an object in the status of a module."""

    api_version: str = ""
    """Group and version of the object."""
    kind: str = ""
    """Kind of the object."""
    metadata: PartialMeta = PartialMeta()
    """Name, namespace and generation of the object."""


class ResourceReference(Struct, frozen=True, kw_only=True):
    """Reference to one version of an object."""

    api_version: str
    """Group and version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object; empty for a cluster-scoped one."""
    name: str = ""
    """Name of the object."""
    uid: str = ""
    """UID of the object."""
    resource_version: str = ""
    """Version of the object that was read."""
    generation: int | None = None
    """Generation of the object that was read."""


class SyncedReference(Struct, frozen=True, kw_only=True):
    """Reference to an object that was applied to a cluster."""

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
