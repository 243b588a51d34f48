"""Kinds that are declared as classes, and their CustomResourceDefinitions."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from kube_crds.meta import ObjectMetadata, Struct
from kube_crds.schemas import schema_of

Document = dict[str, Any]


class Column(NamedTuple):
    """A column of `kubectl get`: its title, the path and the type of its value."""

    title: str
    path: str
    type: str = "string"
    wide: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")


class CustomResource(Struct, frozen=True, kw_only=True):
    """Base of all kinds, with their group, version, names and columns.

    A kind is named as its class, and its plural has an "s", unless KIND and PLURAL say otherwise.
    """

    GROUP: ClassVar[str]
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    CATEGORIES: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[tuple[Column, ...]] = (AGE,)

    api_version: str = ""
    """Group and version of the object."""
    kind: str = ""
    """Kind of the object."""
    metadata: ObjectMetadata = ObjectMetadata()
    """Name, identity and labels."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "KIND" not in cls.__dict__:
            cls.KIND = cls.__name__
        if "PLURAL" not in cls.__dict__:
            cls.PLURAL = f"{cls.KIND.lower()}s"


def crd_of(kind: type[CustomResource]) -> Document:
    """Return the CustomResourceDefinition of a kind."""
    names: Document = {
        "kind": kind.KIND,
        "listKind": f"{kind.KIND}List",
        "plural": kind.PLURAL,
        "singular": kind.KIND.lower(),
    }
    if kind.CATEGORIES:
        names["categories"] = list(kind.CATEGORIES)
    if kind.SHORT_NAMES:
        names["shortNames"] = list(kind.SHORT_NAMES)
    schema = object_schema(kind)
    version: Document = {
        "name": kind.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}} if "status" in schema["properties"] else {},
        "additionalPrinterColumns": [_column(each) for each in kind.COLUMNS],
    }
    scope = "Namespaced" if kind.NAMESPACED else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{kind.GROUP}"},
        "spec": {"group": kind.GROUP, "scope": scope, "names": names, "versions": [version]},
    }


def object_schema(kind: type[CustomResource]) -> Mapping[str, Any]:
    """Return the schema of whole objects of a kind; the API server has its own schema for metadata."""
    schema = schema_of(kind)
    return {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}


def _column(column: Column) -> Document:
    shown: Document = {"name": column.title, "type": column.type, "jsonPath": column.path}
    return shown | ({"priority": 1} if column.wide else {})
