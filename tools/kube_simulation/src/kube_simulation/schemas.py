"""The schema of a kind, compiled once and shared by every cluster that has the kind.

One tree of shapes serves everything that looks at fields: validation, pruning, defaults, the merge of an apply and the
sets of owned fields. It is made from the OpenAPI dialect of CustomResourceDefinitions; the built-in kinds are written
in the same dialect.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import msgspec

ListType = Literal["atomic", "set", "map"]


@dataclass(slots=True, eq=False)
class Shape:
    """What a field may hold, and whether it is owned as a whole or in parts."""

    type: str = ""
    fields: dict[str, "Shape"] = field(default_factory=dict)
    values: "Shape | None" = None
    item: "Shape | None" = None
    open: bool = False
    """Fields that are not declared are kept."""
    atomic: bool = False
    list_type: ListType = "atomic"
    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    default: bytes | None = None
    nullable: bool = False
    int_or_string: bool = False
    enum: tuple[Any, ...] = ()
    pattern: re.Pattern[str] | None = None
    pattern_text: str = ""
    bounds: dict[str, Any] = field(default_factory=dict)
    has_defaults: bool = False
    """There is a default somewhere in it."""
    always_there: bool = False
    """A struct of a built-in kind, which is there even where nothing is in it."""

    def child(self, name: str) -> "Shape | None":
        """Return the shape of a field, None for one that is not declared."""
        known = self.fields.get(name)
        if known is not None:
            return known
        if self.values is not None:
            return self.values
        return ANYTHING if self.open else None


ANYTHING = Shape(open=True)
_BOUNDS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "multipleOf",
        "format",
    }
)


def shape_of(schema: Mapping[str, Any]) -> Shape:
    """Return the shape of a schema; the same schema has the same shape."""
    return _compiled(msgspec.json.encode(schema, order="deterministic"))


def object_shape(schema: Mapping[str, Any]) -> Shape:
    """Return the shape of a whole object: its schema with what every object has."""
    declared = {key: value for key, value in schema.items() if key != "properties"}
    properties = {**(schema.get("properties") or {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA_SCHEMA}
    return shape_of({**declared, "type": "object", "properties": properties})


@lru_cache(maxsize=4096)
def _compiled(encoded: bytes) -> Shape:
    return _compile(msgspec.json.decode(encoded))


def _compile(schema: Mapping[str, Any]) -> Shape:
    items = schema.get("items")
    additional = schema.get("additionalProperties")
    pattern = schema.get("pattern") or ""
    shape = Shape(
        type=schema.get("type") or "",
        fields={name: _compile(each) for name, each in (schema.get("properties") or {}).items()},
        values=_compile(additional) if isinstance(additional, Mapping) else ANYTHING if additional else None,
        item=_compile(items) if isinstance(items, Mapping) else None,
        open=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        required=tuple(schema.get("required") or ()),
        default=msgspec.json.encode(schema["default"]) if "default" in schema else None,
        nullable=bool(schema.get("nullable")),
        int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        enum=tuple(schema.get("enum") or ()),
        pattern=_regex(pattern) if pattern else None,
        pattern_text=pattern,
        bounds={key: value for key, value in schema.items() if key in _BOUNDS},
        always_there=bool(schema.get("x-always-there")),
    )
    if schema.get("x-kubernetes-embedded-resource"):
        shape.fields = {**_compile({"properties": _EMBEDDED}).fields, **shape.fields}
    below = [*shape.fields.values(), *(each for each in (shape.values, shape.item) if each is not None)]
    shape.has_defaults = any(each.default is not None or each.has_defaults for each in below)
    return shape


def _regex(pattern: str) -> "re.Pattern[str] | None":
    """Return a pattern of Go as one of Python, None for one that Python does not know."""
    try:
        return re.compile(re.sub(r"\$$", r"\\Z", pattern))
    except re.error:
        return None


_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
METADATA_SCHEMA: dict[str, Any] = {
    "type": "object",
    "x-always-there": True,
    "properties": {
        **dict.fromkeys(
            ("name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp", "selfLink"), _TEXT
        ),
        "deletionTimestamp": _TEXT,
        "generation": {"type": "integer"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), _FLAG),
                },
            },
        },
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    },
}
_EMBEDDED = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {**METADATA_SCHEMA, "x-kubernetes-preserve-unknown-fields": True},
}
METADATA = shape_of(METADATA_SCHEMA)
