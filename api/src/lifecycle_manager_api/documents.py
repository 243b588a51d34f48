"""From bytes to objects and back.

Reading is lenient about fields that a type does not know, and writing keeps to what a type owns: `as_document` is what
server-side apply wants. Those who read an object, change it and write the whole of it back find `editing` of use.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.meta import ObjectList, Struct

T = TypeVar("T", bound=ApiObject)
Document = dict[str, Any]


class NotDecodable(ValueError):
    """The bytes are no object of the kind; the message says at which field they stop being one."""


def decode(kind: type[T], body: bytes | str) -> T:
    """Return the object in a JSON text. Fields that the type does not know are passed over. Raises NotDecodable."""
    try:
        try:
            found = _decoder(kind).decode(body)
        except msgspec.ValidationError:
            found = _decoder(kind).decode(_without_nulls_in_metadata(body))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotDecodable(f"no {kind.KIND}: {error}") from None
    return _of_kind(kind, found)


def decode_list(kind: type[T], body: bytes | str) -> ObjectList[T]:
    """Return the list, or the page of one, in an API server's answer. Raises NotDecodable."""
    try:
        return _list_decoder(kind).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotDecodable(f"no list of {kind.PLURAL}: {error}") from None


def as_document(thing: ApiObject) -> Document:
    """Return an object as plain data with apiVersion and kind, and of its fields those that are not empty."""
    return {"apiVersion": f"{thing.GROUP}/{thing.VERSION}", "kind": thing.KIND} | plain(thing)


def plain(thing: Struct) -> Document:
    """Return a struct as plain data, as it is on the wire."""
    content: Document = msgspec.json.decode(msgspec.json.encode(thing))
    return content


def encode(thing: ApiObject) -> bytes:
    """Return an object as JSON, with just what `as_document` has."""
    return msgspec.json.encode(as_document(thing))


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _list_decoder(kind: type[T]) -> msgspec.json.Decoder[ObjectList[T]]:
    return msgspec.json.Decoder(ObjectList[kind])  # type: ignore[valid-type]  # the kind is a value here


def _without_nulls_in_metadata(body: bytes | str) -> bytes | str:
    """Leave out what is null in metadata: to an API server it is as good as missing, and it sends some to webhooks."""
    document = msgspec.json.decode(body)
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return body
    metadata = {name: value for name, value in document["metadata"].items() if value is not None}
    return msgspec.json.encode({**document, "metadata": metadata})


def _of_kind(kind: type[T], found: Any) -> T:
    if found.kind != kind.KIND or found.api_version.partition("/")[0] != kind.GROUP:
        raise NotDecodable(f"{found.api_version} {found.kind} is no {kind.KIND} of {kind.GROUP}")
    return found  # type: ignore[no-any-return]
