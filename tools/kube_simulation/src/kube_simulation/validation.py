"""Holding an object against the schema of its kind: what is unknown goes, what is left out gets its default, and what
is wrong is named with its field, in the words of Kubernetes.

Rules in CEL (x-kubernetes-validations) and allOf, anyOf, oneOf and not are not evaluated.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kube_simulation.refusals import FieldCause
from kube_simulation.schemas import ANYTHING, Shape

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_SAID = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_SAID = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_PART_SAID = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_SAID = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def metadata_causes(
    metadata: dict[str, Any], *, name_is_label: bool = False, name_is_free: bool = False, is_custom: bool = False
) -> list[FieldCause]:
    """Return what is wrong with the name, the labels and the finalizers, of which a custom resource has any."""
    name = metadata.get("name") or ""
    causes: list[FieldCause] = []
    if not name:
        return [_cause("Required", "Required value: name or generateName is required", "metadata.name")]
    if not name_is_free:
        causes += _name_causes(name, is_label=name_is_label)
    for key, value in (metadata.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key.rpartition("/")[2]):
            causes.append(_invalid(key, _NAME_PART_SAID, "metadata.labels"))
        if value and not _QUALIFIED.fullmatch(value):
            causes.append(_invalid(value, _VALUE_SAID, "metadata.labels"))
    for number, finalizer in enumerate(metadata.get("finalizers") or ()):
        if not is_custom and "/" not in finalizer and finalizer not in _FINALIZERS:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(_invalid(finalizer, message, f"metadata.finalizers[{number}]"))
    return causes


def _name_causes(name: str, *, is_label: bool) -> list[FieldCause]:
    longest = 63 if is_label else 253
    causes = []
    if is_label and "." in name:
        causes.append(_invalid(name, "must not contain dots", "metadata.name"))
    elif not (_LABEL if is_label else _SUBDOMAIN).fullmatch(name):
        causes.append(_invalid(name, _LABEL_SAID if is_label else _SUBDOMAIN_SAID, "metadata.name"))
    if len(name) > longest:
        causes.append(_invalid(name, f"must be no more than {longest} characters", "metadata.name"))
    return causes


def unknown_fields(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields that the schema does not declare."""
    if isinstance(value, dict):
        for name, each in value.items():
            child = shape.child(name)
            field = f"{path}.{name}" if path else name
            if child is None and not _is_loose(shape):
                yield field
            else:
                yield from unknown_fields(each, child or ANYTHING, field)
    elif isinstance(value, list) and shape.item is not None:
        for number, each in enumerate(value):
            yield from unknown_fields(each, shape.item, f"{path}[{number}]")


def pruned(value: Any, shape: Shape) -> Any:
    """Return the value without the fields that the schema does not declare."""
    if isinstance(value, dict):
        loose = _is_loose(shape)
        kept = {}
        for name, each in value.items():
            child = shape.child(name)
            if child is not None or loose:
                kept[name] = pruned(each, child) if child is not None and child is not ANYTHING else each
        return kept
    if isinstance(value, list) and shape.item is not None:
        return [pruned(each, shape.item) for each in value]
    return value


def _is_loose(shape: Shape) -> bool:
    return shape.open or shape.type not in {"object", ""} or (not shape.type and not shape.fields)


def with_defaults(value: Any, shape: Shape) -> Any:
    """Return the value with the defaults of what is left out, and of null where null is not allowed."""
    if not shape.has_defaults:
        return value
    if isinstance(value, dict):
        filled = dict(value)
        for name, child in shape.fields.items():
            present = name in filled and (filled[name] is not None or child.nullable)
            if not present and child.default is not None:
                filled[name] = msgspec.json.decode(child.default)
            if name in filled and child.has_defaults:
                filled[name] = with_defaults(filled[name], child)
        if shape.values is not None and shape.values.has_defaults:
            for name in filled.keys() - shape.fields.keys():
                filled[name] = with_defaults(filled[name], shape.values)
        return filled
    if isinstance(value, list) and shape.item is not None:
        return [with_defaults(each, shape.item) for each in value]
    return value


def schema_causes(value: Any, shape: Shape, path: str = "") -> Iterator[FieldCause]:
    """Yield what the schema does not allow."""
    if value is None and (shape.nullable or not shape.type):
        return
    if shape.int_or_string and (not isinstance(value, int | str) or isinstance(value, bool)):
        yield _wrong_type(value, "integer,string", path)
        return
    if shape.type and not _is_of(value, shape.type):
        yield _wrong_type(value, shape.type, path)
        return
    if shape.enum and value not in shape.enum:
        supported = ", ".join(_quoted(each) for each in shape.enum)
        yield _cause("NotSupported", f"Unsupported value: {_quoted(value)}: supported values: {supported}", path)
    if isinstance(value, dict):
        yield from _object_causes(value, shape, path)
    elif isinstance(value, list):
        yield from _list_causes(value, shape, path)
    elif isinstance(value, str):
        yield from _text_causes(value, shape, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_causes(value, shape, path)


def _object_causes(value: dict[str, Any], shape: Shape, path: str) -> Iterator[FieldCause]:
    for name in shape.required:
        if name not in value:
            yield _cause("Required", "Required value", f"{path}.{name}" if path else name)
    most, least = shape.bounds.get("maxProperties"), shape.bounds.get("minProperties")
    if most is not None and len(value) > most:
        yield _cause("TooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    if least is not None and len(value) < least:
        yield _invalid(value, f"{path} in body should have at least {least} properties", path)
    for name, each in value.items():
        child = shape.child(name)
        if child is not None and child is not ANYTHING and (path or name != "metadata"):
            yield from schema_causes(each, child, f"{path}.{name}" if path else name)


def _list_causes(value: list[Any], shape: Shape, path: str) -> Iterator[FieldCause]:
    most, least = shape.bounds.get("maxItems"), shape.bounds.get("minItems")
    if most is not None and len(value) > most:
        yield _cause("TooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    if least is not None and len(value) < least:
        yield _invalid(len(value), f"{path} in body should have at least {least} items", path)
    if shape.item is not None:
        for number, each in enumerate(value):
            yield from schema_causes(each, shape.item, f"{path}[{number}]")
    if shape.list_type != "atomic":
        yield from _duplicates(value, shape, path)


def _duplicates(value: list[Any], shape: Shape, path: str) -> Iterator[FieldCause]:
    seen: set[bytes] = set()
    for number, each in enumerate(value):
        keyed = each
        if shape.list_type == "map" and isinstance(each, dict):
            keyed = {key: each[key] for key in shape.keys if key in each}
        encoded = msgspec.json.encode(keyed, order="deterministic")
        if encoded in seen:
            yield _cause("Duplicate", f"Duplicate value: {encoded.decode()}", f"{path}[{number}]")
        seen.add(encoded)


def _text_causes(value: str, shape: Shape, path: str) -> Iterator[FieldCause]:
    """Yield the first rule that a text breaks."""
    most, least = shape.bounds.get("maxLength"), shape.bounds.get("minLength")
    if most is not None and len(value) > most:
        yield _cause("TooLong", f"Too long: may not be more than {most} bytes", path)
    elif least is not None and len(value) < least:
        yield _invalid(value, f"{path} in body should be at least {least} chars long", path)
    elif shape.pattern is not None and not shape.pattern.search(value):
        yield _invalid(value, f"{path} in body should match '{shape.pattern_text}'", path)


def _number_causes(value: float, shape: Shape, path: str) -> Iterator[FieldCause]:
    bounds = shape.bounds
    least, most = bounds.get("minimum"), bounds.get("maximum")
    if most is not None and (value >= most if bounds.get("exclusiveMaximum") else value > most):
        message = "less than" if bounds.get("exclusiveMaximum") else "less than or equal to"
        yield _invalid(value, f"{path} in body should be {message} {most:g}", path)
    if least is not None and (value <= least if bounds.get("exclusiveMinimum") else value < least):
        message = "greater than" if bounds.get("exclusiveMinimum") else "greater than or equal to"
        yield _invalid(value, f"{path} in body should be {message} {least:g}", path)


def _wrong_type(value: Any, wanted: str, path: str) -> FieldCause:
    found = _type_of(value)
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return _cause("TypeInvalid", message, path)


def _is_of(value: Any, wanted: str) -> bool:
    found = _type_of(value)
    return (
        found == wanted
        or (wanted == "number" and found == "integer")
        or (wanted == "integer" and found == "number" and float(value).is_integer())
    )


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _quoted(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _invalid(value: Any, message: str, field: str) -> FieldCause:
    return _cause("Invalid", f"Invalid value: {_quoted(value)}: {message}", field)


def _cause(reason: str, message: str, field: str) -> FieldCause:
    return FieldCause(f"FieldValue{reason}", message, field)
