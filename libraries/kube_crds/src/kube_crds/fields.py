"""Validation rules of fields, in addition to their types. They become part of the CRD; decoding does not check them."""

from typing import Any, NamedTuple

import msgspec

REQUIRED_KEY = "required"


class CelRule(NamedTuple):
    """A validation rule in CEL, and the message for objects that violate it."""

    rule: str
    message: str


def schema(**keywords: Any) -> msgspec.Meta:
    """Add keywords of OpenAPI to the schema of a type."""
    return msgspec.Meta(extra_json_schema=keywords)


def default(value: Any) -> msgspec.Meta:
    """Set the default that the API server fills in. The default of the type must be the same."""
    return schema(default=value)


def keyed_by(*keys: str) -> msgspec.Meta:
    """Make a list a map: keys are unique, and server-side apply merges it item by item."""
    return schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def checked_by(*rules: CelRule) -> msgspec.Meta:
    """Add validation rules to a value."""
    return schema(**{"x-kubernetes-validations": [{"rule": each.rule, "message": each.message} for each in rules]})


REQUIRED = msgspec.Meta(extra={REQUIRED_KEY: True})
"""The field is required by the API server, although the type has a default for decoding."""

ATOMIC_LIST = schema(**{"x-kubernetes-list-type": "atomic"})
ATOMIC_MAP = schema(**{"x-kubernetes-map-type": "atomic"})
