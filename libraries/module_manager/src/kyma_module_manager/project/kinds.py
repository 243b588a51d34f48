"""Checks objects of built-in kinds against their types in the client of Kubernetes: names of fields, and their values.

An API server refuses with the first apply what is found here before, without a cluster. Kinds that the client does not
know, such as those of CRDs, are left to the API server.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kube_runtime.client.built_in_kinds import BUILT_IN_KINDS
from kyma_module_manager.project.schema import OR_BOOLEAN, QUANTITY, Schema, violations

_PARTS = re.compile(r"(?P<of>list|dict)[\[(](?:str, )?(?P<item>.+)[\])]")
_PLAIN = {"str": "string", "datetime": "string", "bool": "boolean", "int": "integer", "float": "number"}
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
        yield from violations(document, _schema_of(model, complete=complete))


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


_known: dict[tuple[str, bool], dict[str, Any]] = {}


def _schema_of(model: str, *, complete: bool) -> dict[str, Any]:
    """Return the schema of a model, with its required fields where objects are `complete`; null is no value."""
    found = _known.get((model, complete))
    if found is None:
        properties, required = dict[str, Schema](), list[str]()
        found = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        _known[model, complete] = found  # before its fields, of which one may be of the same model
        for name, (kind, is_required) in _fields_of(model).items():
            if model == "V1JSONSchemaProps" and name in _SCHEMAS:
                schema = {**found, OR_BOOLEAN: True}
            else:
                schema = _schema_of_value(kind, complete=complete, is_quantity=name in _QUANTITIES)
            if complete and is_required:
                required.append(name)
            properties[name] = {**schema, "nullable": not (complete and is_required)}
    return found


def _schema_of_value(kind: str, *, complete: bool, is_quantity: bool) -> dict[str, Any]:
    if (parts := _PARTS.fullmatch(kind)) is not None:
        item = _schema_of_value(parts["item"], complete=complete, is_quantity=is_quantity)
        is_list = parts["of"] == "list"
        return {"type": "array", "items": item} if is_list else {"type": "object", "additionalProperties": item}
    if kind in _PLAIN:
        return {"type": QUANTITY if is_quantity and kind == "str" else _PLAIN[kind]}
    if _fields_of(kind):
        return _schema_of(kind, complete=complete)
    return {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
