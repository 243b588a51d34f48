"""Metadata of Kubernetes objects (meta/v1 ObjectMeta), and lists of objects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.fields import keyed_by

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all types of the API: immutable, camelCase in JSON, without defaults."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    """The owner of an object, with which it is deleted."""

    api_version: str
    """Group and version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner, in the same namespace."""
    uid: str
    """UID of the owner."""
    controller: bool = False
    """Whether the owner is the managing controller of the object."""
    block_owner_deletion: bool = False
    """Whether deletion of the owner in the foreground waits until the object is deleted."""


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """Name, identity and labels of an object."""

    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object."""
    generate_name: str = ""
    """Prefix of a name that the API server generates."""
    uid: str = ""
    """Unique identifier of the object; an object created later with the same name has another one."""
    resource_version: str = ""
    """Version of the object; an update that names an old one is rejected."""
    generation: int = 0
    """Number of the desired state, increased with each change of it."""
    creation_timestamp: datetime | None = None
    """When the object was created."""
    deletion_timestamp: datetime | None = None
    """When the deletion was requested; the object is deleted after its finalizers are removed."""
    labels: Mapping[str, str] = {}
    """Labels of the object, for selectors."""
    annotations: Mapping[str, str] = {}
    """Further metadata of the object."""
    finalizers: tuple[str, ...] = ()
    """Names of clean-ups to finish before the object is deleted."""
    owner_references: Annotated[tuple[OwnerReference, ...], keyed_by("uid")] = ()
    """The owners of the object, with which it is deleted."""

    @property
    def being_deleted(self) -> bool:
        """Whether the deletion of the object was requested and waits for its finalizers."""
        return self.deletion_timestamp is not None

    @property
    def is_kept_from_former_version(self) -> bool:
        """Whether `skip-reconciliation` is for the Lifecycle Manager in Go alone."""
        return (
            boolean(self.labels, names.SKIP_RECONCILIATION)
            and self.annotations.get(names.SKIPPED_BY) == names.FORMER_VERSION
        )

    @property
    def is_paused(self) -> bool:
        """Whether the object is left alone: by its label, if that is not for another version alone."""
        return boolean(self.labels, names.SKIP_RECONCILIATION) and (
            not self.is_kept_from_former_version or names.PAUSED_AT in self.annotations
        )


def boolean(marks: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Read a label or an annotation that is true or false, in any case; anything else is the default."""
    value = marks.get(name, "").lower()
    return value == "true" or (default and value != "false")


class ListMeta(Struct, frozen=True, kw_only=True):
    """The version of a list, and the token for its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0


class ResourceList(Struct, Generic[T], frozen=True, kw_only=True):
    """A list of objects, or one page of it, as an API server returns it."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()
