"""What is addressed: a kind of object as the API server serves it, and one object of it.

A `Resource` binds an address to the Python type that its objects are read as, so that every call that takes a
resource knows its own result type. Objects are msgspec structs, or plain dicts where the type is not known before
run time.
"""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable
from urllib.parse import quote

from kube_runtime.exceptions import AddressInvalid

T = TypeVar("T")
JsonObject = dict[str, Any]
MAX_DIGITS = 100  # far more than any version has; Python refuses to read more than 4,300


class ObjectKey(NamedTuple):
    """Which object of a kind. The namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@runtime_checkable
class Metadata(Protocol):
    """What this package reads of an object's metadata."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def uid(self) -> str | None: ...
    @property
    def resource_version(self) -> str | None: ...


class _Declared(Protocol):
    GROUP: str
    VERSION: str
    KIND: str
    PLURAL: str
    NAMESPACED: bool


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of object: where the API server serves it, and the type that it is read as."""

    type: type[T]
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @classmethod
    def of(cls, declared: builtins.type[T]) -> "Resource[T]":
        """Return the resource that a class declares in GROUP, VERSION, KIND, PLURAL and NAMESPACED."""
        names = cast("_Declared", declared)
        return cls(declared, names.GROUP, names.VERSION, names.KIND, names.PLURAL, names.NAMESPACED)

    @staticmethod
    def dynamic(group: str, version: str, kind: str, plural: str, namespaced: bool) -> "Resource[JsonObject]":
        """Return a resource whose objects are read as plain dicts."""
        return Resource(dict, group, version, kind, plural, namespaced)

    @property
    def api_version(self) -> str:
        """Group and version as they stand in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def plural_name(self) -> str:
        """The plural with its group, as people and RBAC write it: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path on the API server. The namespace is left out for a cluster-scoped resource.

        Raises AddressInvalid for a name without the namespace that it needs, which would mean another object, and for
        names that no API server stores.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root = f"{root}/namespaces/{_segment(namespace)}"
        elif self.namespaced and name is not None:
            raise AddressInvalid(f"{self.kind} {name!r} is namespaced, and no namespace was given")
        path = f"{root}/{self.plural}"
        if name is not None:
            path = f"{path}/{_segment(name)}"
        return path if subresource is None else f"{path}/{subresource}"

    def key_of(self, item: T) -> ObjectKey:
        """Return the key of an object."""
        if isinstance(item, dict):
            metadata = item["metadata"]
            return ObjectKey(metadata.get("namespace") or "", metadata["name"])
        known = _metadata(item)
        return ObjectKey(known.namespace or "", known.name)

    def version_of(self, item: T) -> str:
        """Return the resource version of an object."""
        return version_of(item)

    def uid_of(self, item: T) -> str:
        """Return the uid of an object."""
        if isinstance(item, dict):
            return str(item["metadata"].get("uid") or "")
        return _metadata(item).uid or ""

    def annotation_of(self, item: T, name: str) -> str:
        """Return an annotation of an object; nothing where it has none, or its type does not read annotations."""
        metadata = item["metadata"] if isinstance(item, dict) else _metadata(item)
        found = metadata.get("annotations") if isinstance(metadata, dict) else getattr(metadata, "annotations", None)
        return str(found.get(name) or "") if isinstance(found, Mapping) else ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.api_version})"


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """The objects of a list, and the resource version at which it was true."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


def version_of(item: object) -> str:
    """Return the resource version of an object."""
    if isinstance(item, dict):
        return str(item["metadata"].get("resourceVersion") or "")
    return _metadata(item).resource_version or ""


def version_number(version: str) -> int:
    """Return a resourceVersion as a number; 0 for one that is none, which is never compared."""
    return int(version) if version.isdecimal() and len(version) <= MAX_DIGITS else 0


def _metadata(item: object) -> Metadata:
    return cast("Metadata", item.metadata)  # type: ignore[attr-defined]  # every Kubernetes object has metadata


def is_storable(name: str) -> bool:
    """Tell whether an API server may store an object, or a namespace, of this name: the rule for path segments."""
    return name not in {"", ".", ".."} and "/" not in name and "%" not in name


@lru_cache(maxsize=1024)
def _segment(text: str) -> str:
    if not is_storable(text):
        raise AddressInvalid(f"{text!r} is an invalid name of a Kubernetes object")
    return quote(text, safe="")
