"""Generates structural schemas for CustomResourceDefinitions (apiextensions.k8s.io/v1) from types."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from kube_crds.documentation import class_text, field_texts
from kube_crds.fields import REQUIRED_KEY

Schema = dict[str, Any]

FREE_FORM: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING: Schema = {"x-kubernetes-int-or-string": True}
"""The schema of `int | str`: a keyword for texts or for numbers says nothing of the other."""


@cache
def schema_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Return the schema of a struct: its fields by their names in JSON, with rules and descriptions."""
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind} is not a struct")
    return _struct(info)


def _schema(info: inspect.Type) -> Schema:
    """Return the schema of a type. Keywords that were added to it override its own."""
    if isinstance(info, inspect.Metadata):
        return _schema(info.type) | (info.extra_json_schema or {})
    if isinstance(info, inspect.UnionType):
        types = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        if {type(each) for each in types} == {inspect.IntType, inspect.StrType}:
            return dict(INT_OR_STRING)
        (only,) = types
        return _schema(only)
    return _BY_TYPE[type(info)](info)


def _struct(info: inspect.StructType) -> Schema:
    properties = {field.encode_name: _field(info.cls, field) for field in info.fields}
    required = [field.encode_name for field in info.fields if _is_required(field)]
    text = class_text(info.cls)
    schema: Schema = {"type": "object"} | ({"description": text} if text else {}) | {"properties": properties}
    return schema | ({"required": sorted(required)} if required else {})


def _field(owner: type[msgspec.Struct], field: inspect.Field) -> Schema:
    text = field_texts(owner).get(field.name)
    try:
        schema = _schema(field.type)
    except (KeyError, ValueError):  # a type without a schema, or a union of several
        raise TypeError(f"{owner.__name__}.{field.name}: there is no schema for the type {field.type}") from None
    return schema | ({"description": text} if text else {})


def _is_required(field: inspect.Field) -> bool:
    marks = field.type.extra if isinstance(field.type, inspect.Metadata) else None
    return field.required or bool((marks or {}).get(REQUIRED_KEY))


def _list(info: Any) -> Schema:
    return {"type": "array", "items": _schema(info.item_type)}


def _map(info: Any) -> Schema:
    return {"type": "object", "additionalProperties": _schema(info.value_type)}


def _one_of(values: Iterable[object]) -> Schema:
    found = list(values)
    (kind,) = {type(each) for each in found}
    return {"type": {str: "string", int: "integer"}[kind], "enum": found}


_BY_TYPE: Mapping[type[inspect.Type], Callable[[Any], Schema]] = {
    inspect.StructType: _struct,
    inspect.VarTupleType: _list,
    inspect.ListType: _list,
    inspect.DictType: _map,
    inspect.EnumType: lambda info: _one_of(each.value for each in info.cls),
    inspect.LiteralType: lambda info: _one_of(info.values),
    inspect.RawType: lambda _: dict(FREE_FORM),
    inspect.StrType: lambda _: {"type": "string"},
    inspect.BoolType: lambda _: {"type": "boolean"},
    inspect.FloatType: lambda _: {"type": "number"},
    inspect.IntType: lambda _: {"type": "integer", "format": "int64"},
    inspect.DateTimeType: lambda _: {"type": "string", "format": "date-time"},
}
