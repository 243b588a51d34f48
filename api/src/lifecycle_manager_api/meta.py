"""Object metadata and conditions, as every Kubernetes object has them (meta/v1)."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What all types of the API have in common: immutable, camelCase on the wire, defaults left out."""


class OwnerReference(Struct, frozen=True, kw_only=True):
    """The object that this one goes with."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """Name, identity and labels of an object."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class LabelSelector(Struct, frozen=True, kw_only=True):
    """Which objects are meant, by their labels."""

    match_labels: Mapping[str, str] = {}
