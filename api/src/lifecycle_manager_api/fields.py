"""What can be said of a field beside its type: by which rules an API server takes or refuses it.

The rules go into the CRDs, and `validate` checks them without a server. Decoding does not: what an API server has
stored is read even where a rule has become stricter since.
"""

from typing import Annotated, Any

import msgspec

from lifecycle_manager_api.cel import CelRule

REQUIRED_KEY = "required"


def schema(**keywords: Any) -> msgspec.Meta:
    """Attach keywords of OpenAPI to a type."""
    return msgspec.Meta(extra_json_schema=keywords)


def default(value: Any) -> msgspec.Meta:
    """Have the API server fill a field in that is left out. The type's own default has to be the same."""
    return schema(default=value)


def keyed_by(*keys: str) -> msgspec.Meta:
    """Make a list a map: no two items have the same keys, and server-side apply owns single items of it."""
    return schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def checked_by(*rules: CelRule) -> msgspec.Meta:
    """Have rules hold for a value."""
    return schema(**{"x-kubernetes-validations": [{"rule": each.rule, "message": each.message} for each in rules]})


REQUIRED = msgspec.Meta(extra={REQUIRED_KEY: True})
"""The field has to be there, though the type has a default to read it with."""

ATOMIC_LIST = schema(**{"x-kubernetes-list-type": "atomic"})
ATOMIC_MAP = schema(**{"x-kubernetes-map-type": "atomic"})
EMBEDDED_OBJECT = schema(**{"x-kubernetes-embedded-resource": True})

ANY_VERSION = r"((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?"

Channel = Annotated[str, schema(pattern="^[a-z]+$", minLength=3, maxLength=32)]
ModuleName = Annotated[str, schema(pattern="^([a-z]{3,}(-[a-z]{3,})*)?$", maxLength=64)]
ModuleVersion = Annotated[str, schema(pattern=f"^{ANY_VERSION}$", maxLength=32)]
