"""Metadata of Kubernetes objects (meta/v1 ObjectMeta)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from kube_crds.fields import keyed_by


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of the types of objects: immutable, camelCase in JSON, without defaults."""


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


class ObjectMetadata(Struct, frozen=True, kw_only=True):
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
