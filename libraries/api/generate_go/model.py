"""Types of Go for the types of the API, so that both languages read and write the same JSON.

Go omits a field with `omitempty` or `omitzero` if it has its zero value. Where the default in Python is another value,
the field is a pointer, or a list that is omitted only if it is nil.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_origin

import msgspec
from msgspec import inspect

import lifecycle_manager_api
from kube_crds import REQUIRED_KEY, field_text
from lifecycle_manager_api import Condition, KymaSelector, LabelSelector, ObjectMeta

META, RUNTIME, INTSTR = "metav1", "runtime", "intstr"
INITIALISMS = frozenset({"api", "uid", "json", "id", "crd", "fqdn"})
OF_KUBERNETES: Mapping[type, str] = {
    Condition: f"{META}.Condition",
    KymaSelector: f"{META}.LabelSelector",
    LabelSelector: f"{META}.LabelSelector",
    ObjectMeta: f"{META}.ObjectMeta",
}
"""Types that Go programs have from Kubernetes."""
ENUMS: Mapping[tuple[Any, ...], str] = {
    alias.__args__: name for name, alias in vars(lifecycle_manager_api).items() if get_origin(alias) is Literal
}
"""The public literals by their values; their names are not part of a field's type."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type that an assignment copies."""

    text: str


@dataclass(frozen=True, slots=True)
class GoStruct:
    """A type with the methods DeepCopy and DeepCopyInto."""

    text: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer to a value."""

    to: Scalar | GoStruct

    @property
    def text(self) -> str:
        """The type as it is written."""
        return f"*{self.to.text}"


@dataclass(frozen=True, slots=True)
class Slice:
    """A list of values."""

    of: Scalar | GoStruct

    @property
    def text(self) -> str:
        """The type as it is written."""
        return f"[]{self.of.text}"


@dataclass(frozen=True, slots=True)
class Map:
    """Values by text."""

    of: Scalar | GoStruct

    @property
    def text(self) -> str:
        """The type as it is written."""
        return f"map[string]{self.of.text}"


Enum = inspect.EnumType | inspect.LiteralType
GoType = Scalar | GoStruct | Pointer | Slice | Map
INT_OR_STRING = Scalar(f"{INTSTR}.IntOrString")
BY_TYPE: Mapping[type[inspect.Type], Scalar | GoStruct] = {
    inspect.StrType: Scalar("string"),
    inspect.BoolType: Scalar("bool"),
    inspect.IntType: Scalar("int64"),
    inspect.UnionType: INT_OR_STRING,
    inspect.RawType: GoStruct(f"{RUNTIME}.RawExtension"),
    inspect.DateTimeType: GoStruct(f"{META}.Time"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoField:
    """A field of a struct, its tag for JSON and what its comment says."""

    name: str
    type: GoType
    tag: str
    text: str
    markers: tuple[str, ...]


def go_name(name: str) -> str:
    """Return the name in Go of a name in Python, in either of its forms."""
    parts = name.lower().rstrip("_").split("_")
    return "".join(part.upper() if part in INITIALISMS else part.capitalize() for part in parts)


def fields_of(kind: type[msgspec.Struct]) -> Iterator[GoField]:
    """Return the fields of a struct."""
    for field in _fields(kind):
        go_type, omitted = _type_and_omission(field)
        yield GoField(
            name=go_name(field.name),
            type=go_type,
            tag=f"{field.encode_name}{omitted}",
            text=field_text(kind, field.name),
            markers=tuple(_markers(field)),
        )


def structs_in(info: inspect.Type) -> Iterator[type[msgspec.Struct]]:
    """Return the structs that a type consists of, except those of Kubernetes; the innermost come first."""
    if isinstance(info, inspect.StructType) and info.cls not in OF_KUBERNETES:
        for field in info.fields:
            yield from structs_in(field.type)
        yield info.cls
    for inner in _inner(info):
        yield from structs_in(inner)


def enums_in(kind: type[msgspec.Struct]) -> Iterator[Enum]:
    """Return the types of a struct's fields that are named in Go and have a constant for each value."""
    for field in _fields(kind):
        info = _unwrapped(field.type)
        if isinstance(info, inspect.EnumType) or (isinstance(info, inspect.LiteralType) and info.values in ENUMS):
            yield info


def enum_name(info: Enum) -> str:
    """Return the name of an enum in Go."""
    return info.cls.__name__ if isinstance(info, inspect.EnumType) else ENUMS[info.values]


def enum_values(info: Enum) -> Iterator[tuple[str, str]]:
    """Return names and values of the constants of an enum."""
    name = enum_name(info)
    if isinstance(info, inspect.EnumType):
        yield from ((f"{name}{go_name(member.name)}", member.value) for member in info.cls)
    else:
        yield from ((f"{name}{value[:1].upper()}{value[1:]}", value) for value in map(str, info.values))


def _fields(kind: type[msgspec.Struct]) -> Sequence[inspect.Field]:
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind} is not a struct")
    return info.fields


def _inner(info: inspect.Type) -> Iterator[inspect.Type]:
    match info:
        case inspect.Metadata(type=inner) | inspect.VarTupleType(item_type=inner):
            yield inner
        case inspect.UnionType(types=types):
            yield from types


def _unwrapped(info: inspect.Type) -> inspect.Type:
    if isinstance(info, inspect.Metadata):
        return _unwrapped(info.type)
    if isinstance(info, inspect.UnionType) and not _is_int_or_string(info):
        (only,) = (each for each in info.types if not isinstance(each, inspect.NoneType))
        return _unwrapped(only)
    return info


def _is_int_or_string(info: inspect.UnionType) -> bool:
    return {inspect.IntType, inspect.StrType} <= {type(each) for each in info.types}


def _type_and_omission(field: inspect.Field) -> tuple[GoType, str]:
    """Return the type of a field, and when its tag leaves it out."""
    found, default = _type(_unwrapped(field.type)), field.default
    if _is_required(field) and default is not True:
        return found, ""
    if isinstance(found, Slice | Map):
        return found, ",omitzero" if default else ",omitempty"
    if isinstance(default, msgspec.Struct):
        return found, ",omitzero"
    is_zero_a_value = found == INT_OR_STRING or (found == BY_TYPE[inspect.IntType] and default is None)
    if isinstance(found, GoStruct) or default is True or is_zero_a_value:
        return Pointer(found), ",omitempty"  # type: ignore[arg-type]  # mypy does not narrow found across `or`
    return found, ",omitempty"


def _type(info: inspect.Type) -> GoType:
    match info:
        case inspect.StructType(cls=cls):
            return GoStruct(OF_KUBERNETES.get(cls, cls.__name__))
        case inspect.VarTupleType(item_type=item):
            return Slice(_element(item))
        case inspect.DictType(value_type=value):
            return Map(_element(value))
        case inspect.EnumType():
            return Scalar(enum_name(info))
        case inspect.LiteralType(values=values):
            return Scalar(ENUMS.get(values, "string"))
    return BY_TYPE[type(info)]


def _element(info: inspect.Type) -> Scalar | GoStruct:
    found = _type(_unwrapped(info))
    if not isinstance(found, Scalar | GoStruct):
        raise TypeError(f"no type of Go for a list or a map of {info}")
    return found


def _is_required(field: inspect.Field) -> bool:
    marks = field.type.extra if isinstance(field.type, inspect.Metadata) else None
    return field.required or bool((marks or {}).get(REQUIRED_KEY))


def _markers(field: inspect.Field) -> Iterator[str]:
    yield "required" if _is_required(field) else "optional"
    info = _unwrapped(field.type)
    if isinstance(info, inspect.LiteralType) and info.values not in ENUMS:
        yield "kubebuilder:validation:Enum=" + ";".join(each or '""' for each in map(str, info.values))
    keywords = (field.type.extra_json_schema or {}) if isinstance(field.type, inspect.Metadata) else {}
    if isinstance(keywords.get("default"), bool | str):
        yield f"kubebuilder:default={msgspec.json.encode(keywords['default']).decode()}"
