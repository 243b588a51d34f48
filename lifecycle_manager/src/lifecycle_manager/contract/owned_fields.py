"""What the Lifecycle Manager wrote to the status of a Module CR, by the record that the API server keeps of it.

The same fields are left out of the text that a Module Manager gets: otherwise each status would be a new text, from
which follows a new status. Only the status is split; whatever the record says, the rest of an object is a user's.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

MODULE_CR_STATUS_MANAGER = "lifecycle-manager-module-status"
"""The field manager of the status of Module CRs."""

Fields = Mapping[str, Any]
_NONE = object()


def owned_status_fields(managed_fields: Any) -> Fields:
    """Return the fields of a status that the Lifecycle Manager owns, as managedFields name them; empty without any."""
    for entry in managed_fields if isinstance(managed_fields, list) else ():
        if not isinstance(entry, Mapping) or entry.get("manager") != MODULE_CR_STATUS_MANAGER:
            continue
        fields, applied = entry.get("fieldsV1"), (entry.get("operation"), entry.get("subresource"))
        if applied == ("Apply", "status") and isinstance(fields, Mapping):
            owned = fields.get("f:status")
            return owned if isinstance(owned, Mapping) else {}
    return {}


def without_owned(status: Any, owned: Fields) -> Any:
    """Return a status without the fields; None where nothing is left of it."""
    rest = _rest(status, owned)
    return None if rest is _NONE else rest


def only_owned(status: Mapping[str, Any], owned: Fields) -> dict[str, Any]:
    """Return the fields of a status that have an owner; of a list, only the items."""
    found: dict[str, Any] = {}
    for name, value in status.items():
        fields = owned.get(f"f:{name}")
        if not isinstance(fields, Mapping):
            continue
        is_shared = isinstance(value, list) and any(key.startswith("k:") for key in fields)
        found[name] = [each for each in value if _fields_of_item(each, fields) is not None] if is_shared else value
    return found


def _rest(value: Any, owned: Fields) -> Any:
    if isinstance(value, dict):
        left = {name: _left(each, owned.get(f"f:{name}")) for name, each in value.items()}
        rest: Any = {name: each for name, each in left.items() if each is not _NONE}
    elif isinstance(value, list):
        rest = [each for each in (_left(each, _fields_of_item(each, owned)) for each in value) if each is not _NONE]
    else:
        return _NONE
    return rest or _NONE


def _left(value: Any, fields: Any) -> Any:
    """Return what is left of a value: all of it where nobody owns it, nothing where it is owned as a whole."""
    if fields is None:
        return value
    return _rest(value, fields) if isinstance(fields, Mapping) and fields else _NONE


def _fields_of_item(item: Any, owned: Fields) -> Any:
    """Return the fields that are owned of an item of a list; None for an item of others."""
    if not isinstance(item, Mapping):
        return None
    for name, fields in owned.items():
        if name.startswith("k:") and _key(name[2:]).items() <= item.items():
            return fields
    return None


def _key(text: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, str | int | bool])
    except msgspec.DecodeError:
        return {"": _NONE}  # no item has it
