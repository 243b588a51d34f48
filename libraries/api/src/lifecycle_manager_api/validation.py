"""Validates objects as an API server does, without one.

    for problem in validate(document):
        print(problem)  # spec.channel: Too short: may not be less than 3 characters long

It checks the rules of the CustomResourceDefinitions for `spec` and `status`, but not the metadata.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kube_crds import object_schema
from lifecycle_manager_api.cel import BY_RULE
from lifecycle_manager_api.crds import KINDS
from lifecycle_manager_api.documents import as_document
from lifecycle_manager_api.kinds import ApiObject

Schema = Mapping[str, Any]

INT_OR_STRING = "integer or string"

_MISSING: Any = object()
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**63 - 1
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class FieldError(NamedTuple):
    """A violation of a rule: the path of the field, and a message."""

    field: str
    message: str

    def __str__(self) -> str:
        """Return the problem as text for users."""
        return f"{self.field}: {self.message}"


def validate(
    thing: ApiObject | Mapping[str, Any], before: ApiObject | Mapping[str, Any] | None = None
) -> tuple[FieldError, ...]:
    """Return why an API server would reject an object; nothing if it would accept it.

    `before` is the old object of an update, for fields that must not change.
    """
    document = _as_mapping(thing)
    schema = _schemas().get((str(document.get("apiVersion")), str(document.get("kind"))))
    if schema is None:
        return (FieldError("kind", f"Unsupported value: {document.get('apiVersion')} {document.get('kind')}"),)
    old = _MISSING if before is None else _as_mapping(before)
    return tuple(_check(document, old, schema, ""))


@cache
def _schemas() -> Mapping[tuple[str, str], Schema]:
    return {(f"{kind.GROUP}/{kind.VERSION}", kind.KIND): object_schema(kind) for kind in KINDS}


def _as_mapping(thing: ApiObject | Mapping[str, Any]) -> Mapping[str, Any]:
    return as_document(thing) if isinstance(thing, ApiObject) else thing


def _check(value: Any, old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if value is None and schema.get("nullable"):
        return
    kind = schema.get("type", INT_OR_STRING)
    if not _IS_OF_TYPE[kind](value):
        yield FieldError(path, f"Invalid value: must be of type {kind}")
        return
    problems = list(_CHECKS[kind](value, old, schema, path))
    yield from problems
    if not problems:  # as an API server does: rules in CEL are evaluated for well-formed values only
        yield from _check_rules(value, old, schema, path)


def _check_object(value: Mapping[str, Any], old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    for name in schema.get("required", ()):
        if name not in value and "default" not in schema["properties"][name]:
            yield FieldError(_join(path, name), "Required value")
    if schema.get("x-kubernetes-embedded-resource"):
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield FieldError(_join(path, name), "Required value: must not be empty")
    before = old if isinstance(old, Mapping) else {}
    for name, each in value.items():
        field = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if field is None or (each is None and "default" in field):
            continue
        yield from _check(each, before.get(name, _MISSING), field, _join(path, name))


def _check_list(value: list[Any], old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if len(value) < schema.get("minItems", 0):
        yield FieldError(path, f"Invalid value: should have at least {schema['minItems']} items")
    before = {_key(item, keys): item for item in old} if keys and isinstance(old, list) else {}
    seen = set()
    for index, item in enumerate(value):
        at = f"{path}[{index}]"
        identity = _key(item, keys) if keys else index
        yield from _check(item, before.get(identity, _MISSING), schema["items"], at)
        if identity in seen:
            yield FieldError(at, "Duplicate value")
        seen.add(identity)


def _check_text(value: str, _old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        yield FieldError(path, f"Unsupported value: supported values: {', '.join(map(repr, schema['enum']))}")
    if len(value) > schema.get("maxLength", len(value)):
        yield FieldError(path, f"Too long: may not be more than {schema['maxLength']} characters")
    if len(value) < schema.get("minLength", 0):
        yield FieldError(path, f"Too short: may not be less than {schema['minLength']} characters long")
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield FieldError(path, f"Invalid value: should match '{schema['pattern']}'")
    if "format" in schema and not _FORMATS[schema["format"]](value):
        yield FieldError(path, f"Invalid value: must be of type {schema['format']}")


def _check_number(value: int, _old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if value < schema.get("minimum", _MIN_INTEGER):
        yield FieldError(
            path, f"Invalid value: should be greater than or equal to {schema.get('minimum', _MIN_INTEGER)}"
        )
    if value > schema.get("maximum", _MAX_INTEGER):
        yield FieldError(path, f"Invalid value: should be less than or equal to {schema.get('maximum', _MAX_INTEGER)}")


def _check_rules(value: Any, old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    for stated in schema.get("x-kubernetes-validations", ()):
        rule = BY_RULE[stated["rule"]]
        if rule.on_updates_only and old is _MISSING:
            continue
        if not rule.holds(value, None if old is _MISSING else old):
            yield FieldError(path, f"Invalid value: {rule.message}")


def _is_timestamp(text: str) -> bool:
    if _TIMESTAMP.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern with the semantics of an API server: ASCII classes, and $ only at the end of the text."""
    return re.compile(text.replace("$", r"\Z"), re.ASCII)


def _check_number_or_text(value: int | str, old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if isinstance(value, str):
        return _check_text(value, old, schema, path)
    return _check_number(value, old, schema, path)


def _key(item: Any, keys: tuple[str, ...]) -> Any:
    return tuple(item.get(key) for key in keys) if isinstance(item, Mapping) else None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _no_check(_value: Any, _old: Any, _schema: Schema, _path: str) -> Iterator[FieldError]:
    return iter(())


_IS_OF_TYPE: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    INT_OR_STRING: lambda value: isinstance(value, int | str) and not isinstance(value, bool),
}
_CHECKS: Mapping[str, Callable[[Any, Any, Schema, str], Iterator[FieldError]]] = {
    "object": _check_object,
    "array": _check_list,
    "string": _check_text,
    "boolean": _no_check,
    "integer": _check_number,
    INT_OR_STRING: _check_number_or_text,
}
_FORMATS: Mapping[str, Callable[[str], bool]] = {"date-time": _is_timestamp, "uri": _is_uri}
