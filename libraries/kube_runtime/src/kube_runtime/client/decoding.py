"""Decoding the bytes of the API server into typed objects, in one pass.

Decoders are made once for each type. What they return is compacted: it keeps no answer alive, and short strings once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from kube_runtime.client.answers import error_from_status
from kube_runtime.client.compacting import compactor_for
from kube_runtime.client.nesting import cut_json
from kube_runtime.exceptions import ObjectUnreadable, ResponseInvalid, ResponseTooLarge
from kube_runtime.resource import ObjectList, version_of

T = TypeVar("T")
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is no JSON, not of the type, or nested too deep."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
EventType = Literal[ChangeType, "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event of a watch, and the resource version that the watch has reached. A bookmark has no object."""

    type: EventType
    object: T | None
    resource_version: str


class UnreadableDeletion(ObjectUnreadable):
    """An object that can't be decoded was deleted."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMetadata
    items: tuple[T, ...] | None = None


class _Event(msgspec.Struct, Generic[T]):
    type: ChangeType
    object: T


class _Mark(msgspec.Struct):
    metadata: _ListMetadata


class _IdentityMetadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: Any = ""


class _Identity(msgspec.Struct):
    metadata: _IdentityMetadata


class _UntypedMetadata(msgspec.Struct, rename="camel"):
    """What those who use an untyped object rely on."""

    name: str
    resource_version: str = ""
    namespace: str | None = None
    uid: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    managed_fields: list[dict[str, Any]] | None = None


class _OtherEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_IDENTITY = msgspec.json.Decoder(_Identity)
_CUT_LIST: msgspec.json.Decoder[_List[Any]] = msgspec.json.Decoder(_List[Any])
_LIST_METADATA = msgspec.json.Decoder(_ListMetadata)
_MARK = msgspec.json.Decoder(_Mark)
_OTHER = msgspec.json.Decoder(_OtherEvent)


class Decoding(Generic[T]):
    """Decodes answers that hold objects of one type. Raises ResponseInvalid for what is none."""

    def __init__(self, kind: type[T]) -> None:
        shape: Any = dict[str, Any] if kind is dict else kind
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(shape)
        self._list: msgspec.json.Decoder[_List[T]] = msgspec.json.Decoder(_List[shape])
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(_Event[shape])
        self._raw_list = msgspec.json.Decoder(_List[msgspec.Raw])
        self._is_dict = kind is dict
        compact = compactor_for(kind) or (lambda item: item)
        self._finish: Callable[[Any], object] = _require_metadata if self._is_dict else compact
        """Checks or compacts an object that was decoded, in place."""

    def object(self, body: bytes, *, may_be_virtual: bool = False) -> T:
        """Decode one object; only one that may be virtual, such as a review, has no name."""
        try:
            decoded = self._object.decode(body)
            if not (self._is_dict and may_be_virtual):
                self._finish(decoded)
        except UNDECODABLE as error:
            raise _unreadable(body, error) from None
        return decoded

    def list(self, body: bytes) -> ObjectList[T]:
        """Decode a page of a list of which every object can be decoded."""
        try:
            page = self._list.decode(body)
            for item in page.items or ():
                self._finish(item)
        except UNDECODABLE as error:
            raise ResponseInvalid(f"the list is not what its kind promises: {error}") from None
        _require_items(page)
        return ObjectList(page.items or (), page.metadata.resource_version, page.metadata.continue_)

    def readable_part(self, body: bytes, unreadable: Callable[[ObjectUnreadable], None]) -> ObjectList[T]:
        """Decode a page of a list, whose other objects are reported to `unreadable` and left out."""
        try:
            page: _List[Any] = self._raw_list.decode(body)
            items = [bytes(raw) for raw in page.items or ()]
        except RecursionError:
            page, items = _cut_list(body)
        except UNDECODABLE as error:
            raise ResponseInvalid(f"the answer is no list: {error}") from None
        _require_items(page)
        readable: list[T] = []
        for item in items:
            try:
                readable.append(self.object(item))
            except ObjectUnreadable as error:
                unreadable(error)
        return ObjectList(tuple(readable), page.metadata.resource_version, page.metadata.continue_)

    def raw_list(self, body: bytes, *, without_nested: bool = False) -> tuple[tuple[msgspec.Raw, ...], str]:
        """Return the items of a page undecoded, as views of the page, and the token for the next page.

        A page with an item that is nested too deep even to find its end raises ResponseTooLarge. With `without_nested`
        its items are replaced by an empty one, and the token is read from the end of the page.
        """
        try:
            page = self._raw_list.decode(body)
        except RecursionError:
            if not without_nested:
                raise ResponseTooLarge("the list has an object that is nested too deep") from None
            return (msgspec.Raw(b""),), _continue_token_at_the_end(body)
        except UNDECODABLE as error:
            raise ResponseInvalid(f"the answer is no list: {error}") from None
        _require_items(page)
        return page.items or (), page.metadata.continue_

    def event(self, line: bytes) -> WatchEvent[T]:
        """Decode one line of a watch: a change of an object, or a bookmark.

        Raises the ApiError that a line may be, ObjectUnreadable for a change of an object that can't be read (its
        subclass UnreadableDeletion where it is gone), and ResponseInvalid for anything else.
        """
        if line.startswith((b'{"type":"BOOKMARK"', b'{"type":"ERROR"')):
            return self._other(line)
        try:
            event = self._event.decode(line)
            self._finish(event.object)
        except (*UNDECODABLE, ObjectUnreadable) as error:
            return self._other(line, error)
        return WatchEvent(event.type, event.object, version_of(event.object))

    def _other(self, line: bytes, why: Exception | None = None) -> WatchEvent[T]:
        try:
            event = _other_event(line)
            if event.type == "BOOKMARK":
                return WatchEvent("BOOKMARK", None, _MARK.decode(event.object).metadata.resource_version)
        except UNDECODABLE as error:
            raise ResponseInvalid(f"a line of the watch is no watch event: {error}") from None
        if event.type == "ERROR":
            raise error_from_status(event.object)
        if event.type == "DELETED":
            raise UnreadableDeletion(*_unreadable(event.object, why).identity, str(why))
        raise _unreadable(event.object, why)


def _cut_list(body: bytes) -> tuple[_List[Any], list[bytes]]:
    """Return a list without its items, and the items."""
    text, items = cut_json(body, 2)  # the list, and the metadata or items in it
    try:
        page = _CUT_LIST.decode(text)
    except UNDECODABLE as error:
        raise ResponseInvalid(f"the answer is no list: {error}") from None
    if len(page.items or ()) != len(items):
        raise ResponseInvalid("the list has other parts than its items")
    return page, items


def _other_event(line: bytes) -> _OtherEvent:
    try:
        return _OTHER.decode(line)
    except RecursionError:
        text, parts = cut_json(line, 1)
        event = _OTHER.decode(text)
        return _OtherEvent(event.type, msgspec.Raw(parts[0]))


def _continue_token_at_the_end(body: bytes) -> str:
    """Return the token of a list of custom resources. Their fields are sorted, so the metadata of the list are last."""
    _, _, end = body.rstrip().rpartition(b'"metadata":')
    try:
        return _LIST_METADATA.decode(end[:-1]).continue_
    except UNDECODABLE as error:
        raise ResponseInvalid(f"the list does not end with its metadata: {error}") from None


def _require_items(page: _List[Any]) -> None:
    """Raise ResponseInvalid for an empty page that promises another one, as an API server never sends."""
    if page.metadata.continue_ and not page.items:
        raise ResponseInvalid("the list has a page without objects that is not its last")


def _require_identity(item: Any) -> None:
    """Raise ResponseInvalid for a dict that has no name: a struct's type says so, a dict's says nothing."""
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        name, namespace = metadata.get("name"), metadata.get("namespace")
        if isinstance(name, str) and (namespace is None or isinstance(namespace, str)):
            return
    raise ResponseInvalid("the answer holds what is no Kubernetes object: it has no name")


def _require_metadata(item: Any) -> None:
    """Check the metadata of a dict, and give it the version and uid that the answer to a dry run does not have.

    Raises ResponseInvalid for one without a name, ObjectUnreadable where other metadata are not what they are for
    every kind.
    """
    _require_identity(item)
    metadata = item["metadata"]
    try:
        checked = msgspec.convert(metadata, _UntypedMetadata)
    except (msgspec.ValidationError, RecursionError) as error:
        version = str(metadata.get("resourceVersion", ""))
        raise ObjectUnreadable(metadata.get("namespace") or "", metadata["name"], version, str(error)) from None
    metadata.setdefault("resourceVersion", checked.resource_version)
    metadata.setdefault("uid", checked.uid)


def _unreadable(document: bytes | msgspec.Raw, why: Exception | None) -> ObjectUnreadable:
    try:
        metadata = _identity(document).metadata
    except UNDECODABLE:
        raise ResponseInvalid(f"the answer is no Kubernetes object: {why}") from None
    return ObjectUnreadable(metadata.namespace, metadata.name, str(metadata.resource_version), str(why))


def _identity(document: bytes | msgspec.Raw) -> _Identity:
    try:
        return _IDENTITY.decode(document)
    except RecursionError:
        return _IDENTITY.decode(cut_json(bytes(document), 2)[0])  # the object, and its metadata


_MADE: dict[type[Any], Decoding[Any]] = {}


def decoding_for(kind: type[T]) -> Decoding[T]:
    """Return the decoders of a type, made at the first call."""
    known = _MADE.get(kind)
    if known is None:
        known = _MADE[kind] = Decoding(kind)
    return known
