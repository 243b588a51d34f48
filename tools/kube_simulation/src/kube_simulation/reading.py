"""Get and list: bytes as they are stored, put together."""

import base64
import binascii
from itertools import islice

import msgspec

from kube_simulation.kinds import Kind
from kube_simulation.refusals import Refused, bad_request, gone, not_found, version_too_large
from kube_simulation.requests import Answer, ApiRequest
from kube_simulation.selectors import selector_of
from kube_simulation.store import KindStore, Store, Stored

_TOO_OLD_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class _Continue(msgspec.Struct):
    version: int
    namespace: str
    name: str


def get(store: Store, kind: Kind, request: ApiRequest) -> Answer:
    """Return one object."""
    table = _table(store, kind, request.until)
    stored = table.get((request.namespace, request.name))
    if stored is None:
        raise not_found(kind, request.name)
    return Answer(200, served_body(kind, stored))


def list_objects(store: Store, kind: Kind, request: ApiRequest) -> Answer:
    """Return the objects that are asked for, or a page of them."""
    query = request.query
    limit = _number(query.get("limit", "0"))
    selector = selector_of(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    version, after = _position(store, request)
    table = _table(store, kind, version)
    namespace = request.namespace
    matching = (
        each
        for each in table.in_order(after)
        if (not namespace or each.namespace == namespace) and (selector is None or selector(each))
    )
    page = list(islice(matching, limit)) if limit else list(matching)
    rest = 0
    if limit and page:
        everything = selector is None and not namespace
        rest = table.count_after(page[-1].key) if everything else sum(1 for _ in matching)
    metadata: dict[str, str | int] = {"resourceVersion": str(version)}
    if rest:
        last = page[-1]
        metadata["continue"] = _token(_Continue(version, last.namespace, last.name))
        if selector is None:
            metadata["remainingItemCount"] = rest
    head = msgspec.json.encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
    return Answer(200, head[:-1] + b',"items":[' + b",".join(served_body(kind, each) for each in page) + b"]}")


def served_body(kind: Kind, stored: Stored) -> bytes:
    """Return an object as this version of its kind serves it."""
    if stored.api_version == kind.api_version:
        return stored.body
    return msgspec.json.encode({**stored.document(), "apiVersion": kind.api_version})


def version_asked(store: Store, request: ApiRequest) -> int | None:
    """Return the resource version that a request names, None where it names none. Raises Refused for one to come."""
    text = request.query.get("resourceVersion", "")
    if text in {"", "0"}:
        return None
    if not text.isdecimal():
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise Refused(500, "", message)
    version = int(text)
    if version > store.version:
        raise version_too_large(version, store.version)
    return version


def _position(store: Store, request: ApiRequest) -> tuple[int, tuple[str, str] | None]:
    """Return the version of the list and the key after which the page begins."""
    newest = store.version if request.until is None else request.until
    token = request.query.get("continue")
    if token:
        at = _decoded(token)
        if at.version < store.oldest:
            raise gone(_TOO_OLD_PAGE)
        return at.version, (at.namespace, at.name)
    version_asked(store, request)
    return newest, None


def _table(store: Store, kind: Kind, version: int | None) -> KindStore:
    if version is None:
        return store.table(kind.storage)
    table = store.table_at(kind.storage, version)
    if table is None:
        raise gone(f"The resourceVersion for the provided list is too old: {version}")
    return table


def _number(text: str) -> int:
    if not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _token(at: _Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(at)).decode()


def _decoded(token: str) -> _Continue:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Continue)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"invalid continue token: {error}") from None
