"""Kubernetes objects from a text that holds one or many."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_runtime.exceptions import ManifestInvalid
from kube_runtime.resource import JsonObject
from kube_runtime.yaml_text import DEFAULT_LIMITS, YamlLimits, load_documents

__all__ = ["InventoryEntry", "KubernetesObject", "parse_objects"]


class InventoryEntry(msgspec.Struct, frozen=True, order=True, gc=False):
    """Names one object in a cluster. The version is the one that it was applied by, and no part of its identity.

    A struct, because inventories are made and compared as a whole, at each reconcile.
    """

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What tells this object from every other."""
        return (self.group, self.kind, self.namespace, self.name)

    @property
    def api_version(self) -> str:
        """Group and version as they stand in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where} ({self.api_version})"


@dataclass(frozen=True, slots=True)
class KubernetesObject:
    """One object as it was written, and the index of the document that it came from."""

    api_version: str
    kind: str
    namespace: str
    name: str
    document: Mapping[str, Any] = field(repr=False)
    index: int

    @classmethod
    def of(cls, document: Mapping[str, Any], index: int = 0) -> "KubernetesObject":
        """Check that a document names an object. Raises ManifestInvalid."""
        metadata = document.get("metadata")
        if not isinstance(metadata, Mapping):
            raise ManifestInvalid(index, "there is no metadata")
        namespace = metadata.get("namespace") or ""
        if not isinstance(namespace, str):
            raise ManifestInvalid(index, "metadata.namespace is no text")
        for key in ("labels", "annotations"):
            if not isinstance(metadata.get(key) or {}, Mapping):
                raise ManifestInvalid(index, f"metadata.{key} is no mapping")
        return cls(
            _text(document, "apiVersion", index),
            _text(document, "kind", index),
            namespace,
            _text(metadata, "name", index, "metadata.name"),
            document,
            index,
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where} ({self.api_version})"


def parse_objects(text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS) -> tuple[KubernetesObject, ...]:
    """Return the objects in a YAML text: many documents, Lists unrolled, empty documents left out.

    Raises ManifestInvalid with the index of the document, counted from 0, that is no object or stands there twice.
    """
    found: dict[tuple[str, ...], KubernetesObject] = {}
    for index, document in enumerate(load_documents(text, limits)):
        for each in _unrolled(document, index):
            item = KubernetesObject.of(each, index)
            group = item.api_version.rpartition("/")[0]
            before = found.setdefault((group, item.kind, item.namespace, item.name), item)
            if before is not item:
                raise ManifestInvalid(index, f"{item} stands in document {before.index} already")
    return tuple(found.values())


def _unrolled(document: Any, index: int) -> Iterator[JsonObject]:
    if document is None or document == {}:
        return
    if not isinstance(document, dict):
        raise ManifestInvalid(index, "it is no mapping, so no Kubernetes object")
    items = document.get("items")
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and (isinstance(items, list) or kind == "List"):
        for item in items or ():
            yield from _unrolled(item, index)
    else:
        yield document


def _text(section: Mapping[str, Any], key: str, index: int, name: str | None = None) -> str:
    value = section.get(key)
    if not isinstance(value, str) or not value:
        raise ManifestInvalid(index, f"{name or key} is missing or no text")
    return value
