"""What every Kubernetes object has: its metadata (meta/v1 ObjectMeta), and the list around many of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec

from lifecycle_manager_api.fields import keyed_by

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """What all types of the API have in common: immutable, camelCase on the wire, defaults left out."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    """The object that this one goes with."""

    api_version: str
    """Group and version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner, in the same namespace."""
    uid: str
    """UID of the owner."""
    controller: bool = False
    """Whether the owner is the one that looks after the object."""
    block_owner_deletion: bool = False
    """Whether an owner that is deleted in the foreground waits for the object to go."""


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """Name, identity and labels of an object."""

    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object."""
    generate_name: str = ""
    """Beginning of a name whose rest the API server makes up."""
    uid: str = ""
    """What tells the object from others that had its name before."""
    resource_version: str = ""
    """Version of the object; an update that names an old one is refused."""
    generation: int = 0
    """Number of the spec, one more with each change of it."""
    creation_timestamp: datetime | None = None
    """When the object was created."""
    deletion_timestamp: datetime | None = None
    """Since when the object is being deleted; it goes when its finalizers have."""
    labels: Mapping[str, str] = {}
    """What the object can be selected by."""
    annotations: Mapping[str, str] = {}
    """What else is noted on the object."""
    finalizers: tuple[str, ...] = ()
    """Who has to clean up before the object goes."""
    owner_references: Annotated[tuple[OwnerReference, ...], keyed_by("uid")] = ()
    """The objects that this one goes with."""

    @property
    def being_deleted(self) -> bool:
        """Whether somebody has deleted the object, and it is there for its finalizers alone."""
        return self.deletion_timestamp is not None


class ListMeta(Struct, frozen=True, kw_only=True):
    """Where a list stands: as of which version, and from where to go on with the next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0


class ObjectList(Struct, Generic[T], frozen=True, kw_only=True):
    """A list of objects, or one page of it, as an API server answers."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()
