"""Validation rules of fields, in addition to their types.

The rules are part of the CRDs, and `validate` checks them without a server. Decoding does not check them: an object
that was stored before a rule became stricter must remain readable.
"""

from typing import Annotated, Any

import msgspec

from lifecycle_manager_api.cel import CelRule

REQUIRED_KEY = "required"


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
EMBEDDED_OBJECT = schema(**{"x-kubernetes-embedded-resource": True})

ANY_VERSION = r"((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?"

Channel = Annotated[str, schema(pattern="^[a-z]+$", minLength=3, maxLength=32)]
ModuleName = Annotated[str, schema(pattern="^([a-z]{3,}(-[a-z]{3,})*)?$", maxLength=64)]
ModuleVersion = Annotated[str, schema(pattern=f"^{ANY_VERSION}$", maxLength=32)]
