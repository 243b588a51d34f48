"""Checks objects of built-in kinds against their types in the client of Kubernetes: names of fields, and their values.

An API server refuses with the first apply what is found here before, without a cluster. Kinds that the client does not
know, such as those of CRDs, are left to the API server.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kube_runtime.client.built_in_kinds import BUILT_IN_KINDS

_PARTS = re.compile(r"(?P<of>list|dict)[\[(](?:str, )?(?P<item>.+)[\])]")
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "datetime": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}
_NAMES = {"str": "a string", "datetime": "a time", "bool": "a boolean", "int": "an integer", "float": "a number"}
_QUANTITIES = frozenset(
    [
        "allocatable",
        "averageValue",
        "capacity",
        "default",
        "defaultRequest",
        "divisor",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "min",
        "requests",
        "sizeLimit",
        "storage",
        "used",
        "value",
    ]
)
"""Fields with quantities such as 500m, which may be numbers too; the client knows them as strings."""

_SCHEMAS = {"items", "additionalProperties", "additionalItems"}
"""Fields of a schema that hold another one, or a boolean; the client knows them as anything."""


def kind_violations(document: Mapping[str, Any], *, complete: bool = False) -> Iterator[str]:
    """Yield what is wrong with the fields of an object, each with its path; nothing of an unknown kind.

    A `complete` object also has the required fields; one that is applied may have a part of them.
    """
    model = _model_of(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    if model is not None:
        yield from _object(document, model, "", complete=complete)


def _model_of(api_version: str, kind: str) -> str | None:
    if (api_version, kind) not in BUILT_IN_KINDS:
        return None
    group, _, version = api_version.rpartition("/")
    capital = version.capitalize()
    names = (f"{(group or 'core').partition('.')[0].capitalize()}{capital}{kind}", f"{capital}{kind}")
    return next((name for name in names if _fields_of(name)), None)


@cache
def _fields_of(model: str) -> Mapping[str, tuple[str, bool]]:
    """Return the type of each field of a model, and whether it is required, by the names in JSON."""
    from kubernetes_asyncio.client import Configuration, models  # noqa: PLC0415 - a second, for one command

    found: Any = getattr(models, model, None)
    if not hasattr(found, "openapi_types"):
        return {}
    empty = found.__new__(found)
    empty.local_vars_configuration = Configuration()

    def is_required(name: str) -> bool:
        try:
            setattr(empty, name, None)
        except ValueError:  # what a client says of a required field
            return True
        return False

    return {found.attribute_map[name]: (kind, is_required(name)) for name, kind in found.openapi_types.items()}


def _object(value: Mapping[str, Any], model: str, path: str, *, complete: bool) -> Iterator[str]:
    fields = _fields_of(model)
    for name, (_, is_required) in fields.items():
        if complete and is_required and value.get(name) is None:
            yield f"{path or 'the object'} has no {name}"
    for name, item in value.items():
        here = f"{path}.{name}".lstrip(".")
        if name not in fields:
            yield f"{here} is no field of {model.partition('V1')[2] or model}"
        elif item is not None:
            of_schema = model == "V1JSONSchemaProps" and name in _SCHEMAS and not isinstance(item, bool)
            kind = model if of_schema else fields[name][0]
            yield from _value(item, kind, here, complete=complete, is_quantity=name in _QUANTITIES)


def _value(value: object, kind: str, path: str, *, complete: bool, is_quantity: bool = False) -> Iterator[str]:
    parts = _PARTS.fullmatch(kind)
    if parts is not None and parts["of"] == "list":
        if not isinstance(value, list | tuple):
            yield f"{path} is {_name_of(value)}, not a list"
            return
        for index, item in enumerate(value):
            yield from _value(item, parts["item"], f"{path}[{index}]", complete=complete)
    elif parts is not None or _fields_of(kind):
        if not isinstance(value, Mapping):
            yield f"{path} is {_name_of(value)}, not an object"
        elif parts is None:
            yield from _object(value, kind, path, complete=complete)
        else:
            for name, item in value.items():
                yield from _value(item, parts["item"], f"{path}.{name}", complete=complete, is_quantity=is_quantity)
    elif kind in _PLAIN:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = isinstance(value, _PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
        if not fits and not (is_quantity and is_number):
            yield f"{path} is {_name_of(value)}, not {_NAMES[kind]}"


def _name_of(value: object) -> str:
    match value:
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value!r}"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return "null" if value is None else type(value).__name__
