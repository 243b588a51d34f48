"""Changes an object and keeps the fields that only a newer version of the API knows."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube_crds import schema_of
from lifecycle_manager_api.documents import Document, decode, plain
from lifecycle_manager_api.kinds import ApiObject

_MISSING: Any = object()


def edited(body: bytes | str, wanted: ApiObject) -> bytes:
    """Return the JSON of an object that was read, with the changes that make it `wanted`.

    Fields that the type does not know stay as they are, in items of lists too: an item is identified by the list's keys
    or, without keys, by its known fields. Raises NotDecodable.
    """
    known = decode(type(wanted), body)
    document: Document = msgspec.json.decode(body)
    return msgspec.json.encode(_merged(document, plain(known), plain(wanted), schema_of(type(wanted))))


def _merged(document: Any, known: Any, wanted: Any, schema: Mapping[str, Any]) -> Any:
    """Return a part of a document, changed where its wanted value differs from its known value."""
    if known == wanted:
        return wanted if document is _MISSING else document
    if isinstance(document, dict) and isinstance(known, dict) and isinstance(wanted, dict):
        return _merged_object(document, known, wanted, schema)
    if isinstance(document, list) and isinstance(known, list) and isinstance(wanted, list):
        return _merged_list(document, known, wanted, schema)
    return wanted


def _merged_object(document: Document, known: Document, wanted: Document, schema: Mapping[str, Any]) -> Document:
    merged = {name: value for name, value in document.items() if name in wanted or name not in known}
    fields = schema.get("properties", {})
    for name, value in wanted.items():
        before = document.get(name, _MISSING)
        merged[name] = _merged(before, known.get(name, _MISSING), value, fields.get(name, {}))
    return merged


def _merged_list(
    document: Sequence[Any], known: Sequence[Any], wanted: Sequence[Any], schema: Mapping[str, Any]
) -> list[Any]:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    before = [(_identity(item, keys), whole, item) for whole, item in zip(document, known, strict=True)]
    merged = []
    for item in wanted:
        whole, part = next(
            ((whole, part) for identity, whole, part in before if identity == _identity(item, keys)),
            (_MISSING, _MISSING),
        )
        merged.append(_merged(whole, part, item, schema.get("items", {})))
    return merged


def _identity(item: Any, keys: Sequence[str]) -> Any:
    return [item.get(key) for key in keys] if keys and isinstance(item, dict) else item
