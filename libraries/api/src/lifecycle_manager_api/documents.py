"""Decodes and encodes objects.

Decoding ignores fields that a type does not know. Encoding has only the fields that the object sets, as server-side
apply needs it (`as_document`).
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from kube_crds import Struct
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.meta import ResourceList

T = TypeVar("T", bound=ApiObject)
Document = dict[str, Any]


class NotDecodable(ValueError):
    """The bytes are not a valid object of the kind; the message names the field."""


def decode(kind: type[T], body: bytes | str) -> T:
    """Return the object in a JSON text. Unknown fields are ignored. Raises NotDecodable."""
    try:
        try:
            found = _decoder(kind).decode(body)
        except msgspec.ValidationError:
            found = _decoder(kind).decode(_without_nulls_in_metadata(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotDecodable(f"invalid {kind.KIND}: {error}") from None
    return _of_kind(kind, found)


def decode_list(kind: type[T], body: bytes | str) -> ResourceList[T]:
    """Return the list, or one page of it, in the response of an API server. Raises NotDecodable."""
    try:
        return _list_decoder(kind).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotDecodable(f"invalid list of {kind.PLURAL}: {error}") from None


def as_document(thing: ApiObject) -> Document:
    """Return an object as plain data with apiVersion, kind and all fields that are not empty."""
    return {"apiVersion": f"{thing.GROUP}/{thing.VERSION}", "kind": thing.KIND} | plain(thing)


def plain(thing: Struct) -> Document:
    """Return a struct as plain data, in the names and types of its JSON."""
    content: Document = msgspec.json.decode(msgspec.json.encode(thing))
    return content


def encode(thing: ApiObject) -> bytes:
    """Return `as_document` as JSON."""
    return msgspec.json.encode(as_document(thing))


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _list_decoder(kind: type[T]) -> msgspec.json.Decoder[ResourceList[T]]:
    return msgspec.json.Decoder(ResourceList[kind])  # type: ignore[valid-type]  # the kind is a value here


def _without_nulls_in_metadata(body: bytes | str) -> bytes | str:
    """Remove nulls from metadata: an API server treats them as missing, and sends some of them to webhooks."""
    document = msgspec.json.decode(body)
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return body
    metadata = {name: value for name, value in document["metadata"].items() if value is not None}
    return msgspec.json.encode({**document, "metadata": metadata})


def _of_kind(kind: type[T], found: Any) -> T:
    if found.kind != kind.KIND or found.api_version.partition("/")[0] != kind.GROUP:
        raise NotDecodable(f"{found.api_version} {found.kind} is not a {kind.KIND} of {kind.GROUP}")
    return found  # type: ignore[no-any-return]
