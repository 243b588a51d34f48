"""Kubernetes objects from a text that holds one or many."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from kube_runtime.exceptions import ManifestInvalid
from kube_runtime.resource import JsonObject
from kube_runtime.yaml_text import DEFAULT_LIMITS, RepeatedKey, YamlLimits, load_documents

MAX_WARNINGS = 10
Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name of an object."""


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
    def identity(self) -> Identity:
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
        name = _text(metadata, "name", index, "metadata.name")
        for key, value in (("name", name), ("namespace", namespace)):
            if value in {".", ".."} or "/" in value or "%" in value:
                raise ManifestInvalid(
                    index, f"invalid metadata.{key} {value!r}: expected other than . and .., without / and %"
                )
        return cls(
            _text(document, "apiVersion", index), _text(document, "kind", index), namespace, name, document, index
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where} ({self.api_version})"


NamespaceOf = Callable[[KubernetesObject], str]


class ParsedManifest(NamedTuple):
    """The objects of a manifest, and what was passed over to read it, as kubectl does."""

    objects: tuple[KubernetesObject, ...]
    warnings: tuple[str, ...] = ()


def parse_objects(
    text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS, *, default_namespace: str = ""
) -> tuple[KubernetesObject, ...]:
    """Return the objects in a YAML or JSON text: many documents, Lists unrolled, empty documents left out.

    Raises ManifestInvalid with the index of the document, counted from 0, that is no object, has a key twice, or stands
    there twice: an object without a namespace is the same as that in the `default_namespace`.
    """
    found = tuple(_objects(load_documents(text, limits)))
    require_once(found, lambda each: each.namespace or default_namespace)
    return found


def parse_manifest(text: str | bytes, limits: YamlLimits = DEFAULT_LIMITS) -> ParsedManifest:
    """Return the objects of a text that somebody has published: of a key that stands twice the last value counts.

    Objects that stand there twice are left to `once_each`, where their namespace is known. Raises ManifestInvalid.
    """
    repeated: list[RepeatedKey] = []
    found = tuple(_objects(load_documents(text, limits, repeated)))
    return ParsedManifest(found, _shortened(map(str, repeated)))


def once_each(objects: Iterable[KubernetesObject], namespace_of: NamespaceOf) -> ParsedManifest:
    """Return each object once, the first one, as the Lifecycle Manager in Go does, with a warning for every other."""
    things = tuple(objects)
    pairs = list(zip(_firsts(things, namespace_of), things, strict=True))
    warnings = (
        f"document {each.index}: {_already(first, each)}; the first one counts"
        for first, each in pairs
        if first is not each
    )
    return ParsedManifest(tuple(each for first, each in pairs if first is each), _shortened(warnings))


def require_once(objects: Iterable[KubernetesObject], namespace_of: NamespaceOf) -> None:
    """Raise ManifestInvalid for objects of which one stands there twice."""
    things = tuple(objects)
    for first, each in zip(_firsts(things, namespace_of), things, strict=True):
        if first is not each:
            raise ManifestInvalid(each.index, _already(first, each))


def kind_named_in(crd: KubernetesObject) -> tuple[str, str]:
    """Return the group and name of the kind that a CRD defines; nothing of any use where it is malformed."""
    spec = crd.document.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(names := spec.get("names"), Mapping):
        return "", ""
    return str(spec.get("group")), str(names.get("kind"))


def _firsts(objects: Iterable[KubernetesObject], namespace_of: NamespaceOf) -> list[KubernetesObject]:
    """Return for each object the first one of the same identity, of which the version is no part."""
    found: dict[tuple[str, ...], KubernetesObject] = {}
    return [
        found.setdefault((each.api_version.rpartition("/")[0], each.kind, namespace_of(each), each.name), each)
        for each in objects
    ]


def _already(first: KubernetesObject, again: KubernetesObject) -> str:
    return f"{again} stands in document {first.index} already"


def _shortened(warnings: Iterable[str]) -> tuple[str, ...]:
    found = list(warnings)
    more = len(found) - MAX_WARNINGS
    return tuple(found) if more <= 0 else (*found[:MAX_WARNINGS], f"{more} more of this kind")


def _objects(documents: Iterable[Any]) -> Iterator[KubernetesObject]:
    for index, document in enumerate(documents):
        for each in _unrolled(document, index):
            yield KubernetesObject.of(each, index)


def _unrolled(document: Any, index: int) -> Iterator[JsonObject]:
    if document is None or document == {}:
        return
    if not isinstance(document, dict):
        raise ManifestInvalid(index, "it is no mapping, so no Kubernetes object")
    items = document.get("items")
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and (isinstance(items, list) or kind == "List"):
        of_items = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
        for item in items or ():
            is_typed = kind == "List" or not isinstance(item, dict) or item.get("kind") or item.get("apiVersion")
            yield from _unrolled(item if is_typed else {**item, **of_items}, index)
    else:
        yield document


def _text(section: Mapping[str, Any], key: str, index: int, name: str | None = None) -> str:
    value = section.get(key)
    if not isinstance(value, str) or not value:
        raise ManifestInvalid(index, f"{name or key} is missing or no text")
    return value
