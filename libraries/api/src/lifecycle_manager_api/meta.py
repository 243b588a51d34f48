"""Metadata of Kubernetes objects (meta/v1 ObjectMeta), and lists of objects."""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from kube_crds import ObjectMetadata, Struct
from lifecycle_manager_api import names

T = TypeVar("T")


class ObjectMeta(ObjectMetadata, frozen=True, kw_only=True):
    """Name, identity and labels of an object."""

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
