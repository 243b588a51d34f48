"""Checks a Module CR against the schema of its CRD: the subset of OpenAPI v3 that CRDs use.

The API server decides; this finds the usual mistakes before, without a cluster.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]
QUANTITY, OR_BOOLEAN = "quantity", "x-or-boolean"
"""Only in the schemas of built-in kinds (`kinds`): such as 500m or 2, and a schema that may be a boolean instead."""

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    QUANTITY: (str, int, float),
}


def schemas_of(crds: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Schema]:
    """Return the schemas of the served versions of CRDs, by apiVersion and kind."""
    return {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]): schema_of(version)
        for crd in crds
        for version in crd["spec"]["versions"]
        if version["served"]
    }


def schema_of(version: Mapping[str, Any]) -> Schema:
    """Return the schema of a version of a CRD, an empty one where it has none."""
    schema: Schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def violations(value: object, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield the violations of a schema by a value, each with the path of the field."""
    here = path or "the object"
    if value is None:
        if not schema.get("nullable"):
            yield f"{here} is null"
        return
    if not _has_type(value, schema):
        yield f"{here} is {type(value).__name__}, not {schema.get('type') or 'an integer or string'}"
        return
    if schema.get("enum") is not None and value not in schema["enum"]:
        yield f"{here} is {value!r}, not one of {schema['enum']}"
    match value:
        case str():
            yield from _string(value, schema, here)
        case bool():
            return
        case int() | float():
            yield from _number(value, schema, here)
        case Mapping():
            yield from _object(value, schema, path)
        case list() | tuple():
            yield from _array(value, schema, path)


def _has_type(value: object, schema: Schema) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = schema.get("type")
    if wanted is None:
        return True
    if isinstance(value, bool):
        return wanted == "boolean" or OR_BOOLEAN in schema
    return isinstance(value, TYPES.get(wanted, ()))


def _string(value: str, schema: Schema, path: str) -> Iterator[str]:
    yield from _limits(len(value), schema, "minLength", "maxLength", text=f"{path} has {len(value)} characters")
    try:
        matches = re.search(schema.get("pattern") or "", value)
    except re.error as error:
        yield f"{path} has a pattern in the schema that is invalid: {error}"
    else:
        if matches is None:
            yield f"{path} is {value!r}, which does not match {schema['pattern']}"


def _number(value: float, schema: Schema, path: str) -> Iterator[str]:
    yield from _limits(value, schema, "minimum", "maximum", text=f"{path} is {value}")


def _object(value: Mapping[str, object], schema: Schema, path: str) -> Iterator[str]:
    here = path or "the object"
    yield from _limits(len(value), schema, "minProperties", "maxProperties", text=f"{here} has {len(value)} fields")
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{here} has no {name}"
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, item in value.items():
        below = f"{path}.{name}".lstrip(".")
        if name in properties:
            yield from violations(item, properties[name], below)
        elif isinstance(additional, Mapping):
            yield from violations(item, additional, below)
        elif additional is False or not (
            additional
            or schema.get("x-kubernetes-preserve-unknown-fields")
            or (not path and name in {"apiVersion", "kind", "metadata"})
            or path == "metadata"
        ):
            yield f"{below} is not in the schema"


def _array(value: Sequence[object], schema: Schema, path: str) -> Iterator[str]:
    yield from _limits(len(value), schema, "minItems", "maxItems", text=f"{path} has {len(value)} items")
    for index, item in enumerate(value):
        yield from violations(item, schema.get("items") or {}, f"{path}[{index}]")
    if keys := schema.get("x-kubernetes-list-map-keys"):
        seen: set[tuple[str, ...]] = set()
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                identity = tuple(repr(item.get(key)) for key in keys)
                if identity in seen:
                    yield f"{path}[{index}] has the same key as an item before it"
                seen.add(identity)


def _limits(size: float, schema: Schema, minimum: str, maximum: str, *, text: str) -> Iterator[str]:
    least, most = schema.get(minimum), schema.get(maximum)
    if least is not None and size < least:
        yield f"{text}, fewer than {least}"
    if most is not None and size > most:
        yield f"{text}, more than {most}"
