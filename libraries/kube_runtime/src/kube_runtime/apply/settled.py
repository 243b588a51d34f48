"""Whether an apply would change nothing, from the live object alone: for a process that has just started.

managedFields say what this field manager applied last. If that is what is in the document, and the object has every
value of the document, there is nothing to add, change or remove. A value that somebody else has changed and changed
back is theirs: without another apply it would stay when it leaves the document. Where a server normalizes a value, as
with quantities, this finds a difference, and the apply finds that there is none. Only custom resources keep a null.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube_runtime.apply.field_sets import applied_by
from kube_runtime.apply.order import is_built_in
from kube_runtime.client.decoding import UNDECODABLE
from kube_runtime.resource import JsonObject

_IDENTITY = frozenset({"apiVersion", "kind"})
_OWNED_METADATA = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})


def is_settled(live: JsonObject, document: Mapping[str, Any], field_manager: str) -> bool:
    """Tell whether an object has all that a document says, and this field manager owns all of that and no more."""
    if live["metadata"].get("deletionTimestamp"):
        return False
    owned = applied_by(field_manager, live)
    if owned is None or not holds(live, document):
        return False
    wanted = {key: value for key, value in document.items() if key not in _IDENTITY}
    return _covers(wanted, owned) and _owns(_ownable(wanted), owned, nulls=_keeps_nulls(document))


def holds(live: JsonObject, document: Mapping[str, Any]) -> bool:
    """Tell whether an object has every value of a document."""
    content = {key: value for key, value in document.items() if key not in _IDENTITY and key != "metadata"}
    return _holds(live, content, nulls=_keeps_nulls(document)) and _holds(
        live["metadata"], document["metadata"], nulls=False
    )


def last_writer(live: JsonObject, field_manager: str) -> str:
    """Return the field manager that wrote an object last, apart from its status; empty where it was this one."""
    entries = [each for each in live["metadata"].get("managedFields") or () if not each.get("subresource")]
    if not entries:
        return ""
    # A server gives whole seconds: of two writes in one, that of the other field manager counts.
    last = max(entries, key=lambda each: (str(each.get("time", "")), each.get("manager") != field_manager))
    return str(last.get("manager", "")) if last.get("manager") != field_manager else ""


def _keeps_nulls(document: Mapping[str, Any]) -> bool:
    return not is_built_in(str(document.get("apiVersion", "")).rpartition("/")[0])


def _holds(live: Any, wanted: Any, *, nulls: bool) -> bool:
    """Tell whether everything in a value is so in the live one, which may have more; with `nulls`, also each null."""
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return False
        return all(
            (value is None and not nulls) or (key in live and _holds(live[key], value, nulls=nulls))
            for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        if not isinstance(live, list) or len(live) != len(wanted):
            return False
        return all(_holds(there, each, nulls=nulls) for there, each in zip(live, wanted, strict=True))
    return type(live) is type(wanted) and bool(live == wanted)


def _covers(wanted: Any, owned: object) -> bool:
    """Tell whether a value has everything that is owned, so that an apply takes nothing away.

    What is no set of fields, as the format of `fieldsV1` has it, is covered by nothing.
    """
    if not isinstance(owned, Mapping) or _has_more(owned, wanted):
        return False
    for path, below in owned.items():
        if path == ".":
            continue
        if path.startswith("f:"):
            name = path[2:]
            if not isinstance(wanted, Mapping) or name not in wanted or not _covers(wanted[name], below):
                return False
        elif not isinstance(wanted, list | tuple) or not _covers_item(wanted, path, below):
            return False
    return True


def _covers_item(wanted: Sequence[Any], path: str, owned: object) -> bool:
    """Tell whether a list has everything that is owned of one item, which the path names by its keys (`k:`).

    Items named by their value or place (`v:`, `i:`) have nothing below.
    """
    if not path.startswith("k:"):
        return True
    item = item_at(wanted, path)
    if item is None or not isinstance(owned, Mapping):
        return False
    keys = _keys_of(path)
    return _covers(item, {key: below for key, below in owned.items() if key[2:] not in keys})


def _ownable(wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a document without the metadata that nobody owns, such as the name."""
    metadata = wanted.get("metadata") or {}
    owned = {key: value for key, value in metadata.items() if key in _OWNED_METADATA and value}
    return {
        **{key: value for key, value in wanted.items() if key != "metadata"},
        **({"metadata": owned} if owned else {}),
    }


def _owns(wanted: Any, owned: object, *, nulls: bool) -> bool:
    """Tell whether all fields of a value are owned. One with no fields below it is owned as a whole."""
    if not isinstance(owned, Mapping) or _has_more(owned, wanted):
        return False
    if not owned:
        return True
    if isinstance(wanted, Mapping):
        fields = ((f"f:{key}", value) for key, value in wanted.items() if nulls or value is not None)
        return all(path in owned and _owns(value, owned[path], nulls=nulls) for path, value in fields)
    return not isinstance(wanted, list | tuple) or _owns_items(wanted, owned, nulls=nulls)


def _has_more(owned: Mapping[str, Any], wanted: Any) -> bool:
    """Tell whether more items are owned than a list has, in each of which its items would be searched."""
    return isinstance(wanted, list | tuple) and len(owned) > len(wanted) + 1  # that itself (`.`)


def _owns_items(wanted: Sequence[Any], owned: Mapping[str, Any], *, nulls: bool) -> bool:
    """Tell whether all items of a list are owned, which the paths name by their keys (`k:`) or values (`v:`)."""
    items = {path: item for path in owned if (item := item_at(wanted, path)) is not None}
    values = [path for path in owned if path.startswith("v:")]
    if len({id(item) for item in items.values()}) + len(values) < len(wanted):
        return False
    return all(_owns(item, owned[path], nulls=nulls) for path, item in items.items())


def item_at(wanted: Sequence[Any], path: str) -> Mapping[str, Any] | None:
    """Return the only item of a list that has the keys in a path (`k:`). It may leave a key out that has a default."""
    keys = _keys_of(path) if path.startswith("k:") else {}
    items = [
        item
        for item in wanted
        if isinstance(item, Mapping) and all(item.get(key, value) == value for key, value in keys.items())
    ]
    return items[0] if keys and len(items) == 1 else None


def _keys_of(path: str) -> dict[str, Any]:
    """Return the keys of an item; none where they can't be read."""
    try:
        return msgspec.json.decode(path[2:], type=dict[str, Any])
    except UNDECODABLE:
        return {}
