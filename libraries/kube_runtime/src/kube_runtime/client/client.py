"""The verbs of the Kubernetes API on typed objects, for one cluster."""

import asyncio
import copy
import dataclasses
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import msgspec

from kube_runtime.client.bodies import Fence
from kube_runtime.client.decoding import UNDECODABLE, WatchEvent, decoding_for
from kube_runtime.client.discovery import METADATA_ONLY, RestMapper
from kube_runtime.client.json_limits import JsonLimits, check_json_aside
from kube_runtime.client.kubeconfig import (
    STRICT,
    Connection,
    KubeconfigPolicy,
    connection_from_kubeconfig,
    connection_of_environment,
)
from kube_runtime.client.options import DEFAULT_OPTIONS, ClientOptions
from kube_runtime.client.transport import ServerResponse, Transport
from kube_runtime.exceptions import (
    ApiError,
    ClusterUnreachable,
    KindUnknown,
    MethodNotAllowed,
    NotServed,
    ObjectUnreadable,
    ResponseInvalid,
    ResponseTooLarge,
)
from kube_runtime.parsing import parse_aside
from kube_runtime.resource import JsonObject, ObjectList, Resource

T = TypeVar("T")
Document = Mapping[str, Any] | msgspec.Struct
Propagation = Literal["Background", "Foreground", "Orphan"]

_WHOLE_LIST = 2_000
MIN_PAGE_BYTES = 16 * 1024  # what a page counts at least: so small ones end too
MAX_PAGE_BYTES = 32 * 1024 * 1024
UNDECODED_PAGE = 50
_APPLY = "application/apply-patch+yaml"  # JSON is YAML, and much faster to read
_ONLY_IN_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
# An apply is checked against the schema in any case. Validation adds a search for fields that the text has twice, for
# which the server parses it once more as YAML, and a document that was made from a mapping has none.
_NO_SECOND_PARSE = "Ignore"
_JSON = "application/json"
_MERGE = "application/merge-patch+json"


class Applied(msgspec.Struct, frozen=True):
    """The response to a server-side apply, undecoded: the object's bytes, and whether it is new."""

    body: bytes
    created: bool


class RevisionMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The identity of one revision of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Revision(msgspec.Struct, frozen=True):
    """One object in one revision, without its content."""

    metadata: RevisionMetadata


class Client:
    """A client of one cluster, with one pool of connections. Use it as an async context manager, or close it.

    Every call raises ApiError (by reason: NotFound, KindUnknown, Conflict, ...), ClusterUnreachable, ResponseInvalid,
    or AddressInvalid where no object can have such a name.
    """

    def __init__(self, connection: Connection, options: ClientOptions = DEFAULT_OPTIONS) -> None:
        self._transport = Transport(connection, options)
        self._fence: Fence | None = None
        self.mapper = RestMapper(self._transport)
        self.server = connection.server

    @classmethod
    async def from_kubeconfig(
        cls,
        source: Path | str | Mapping[str, Any],
        *,
        options: ClientOptions = DEFAULT_OPTIONS,
        policy: KubeconfigPolicy = STRICT,
        context: str | None = None,
    ) -> Self:
        """Make a client from a kubeconfig: its file, its text or its document.

        What the policy forbids raises KubeconfigRefused; what can't work raises KubeconfigInvalid. Nothing is sent.
        """
        return cls(await connection_from_kubeconfig(source, policy, context), options)

    @classmethod
    async def from_environment(
        cls,
        kubeconfig: Path | None = None,
        *,
        options: ClientOptions = DEFAULT_OPTIONS,
        context: str | None = None,
    ) -> Self:
        """Make a client as kubectl would: from the file given, else as a Pod, else from the user's own.

        It is one's own configuration, so it may ask for everything. Raises KubeconfigInvalid where there is none.
        `context` is one of a kubeconfig, other than its current one.
        """
        return cls(await connection_of_environment(kubeconfig, context), options)

    def fenced_by(self, fence: Fence) -> Self:
        """Return this client with a check before every write, at the latest moment possible.

        What the fence raises is raised, and nothing was sent. It shares its connections with this client; close only
        this one.
        """
        fenced = copy.copy(self)
        fenced._fence = fence  # noqa: SLF001 - its own class
        return fenced

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def server_version(self) -> str:
        """Return the version of the API server, such as `v1.36.1`."""
        answer = await self._transport.request("GET", "/version")
        return str(_document(answer).get("gitVersion", ""))

    @property
    def failure(self) -> ClusterUnreachable | None:
        """Why no requests are sent to the server at present; None while they are, or without a circuit."""
        return self._transport.circuit.failure

    async def probe(self) -> None:
        """Send a request that closes the circuit if the server responds at all. Raises ClusterUnreachable."""
        with suppress(ApiError):
            await self._transport.request("GET", "/version", probe=True)

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """Read one object."""
        answer = await self._request(resource, "GET", resource.path(namespace, name))
        return decoding_for(resource.type).object(answer.body)

    async def get_undecoded(
        self, resource: Resource[Any], name: str, namespace: str | None = None, *, limits: JsonLimits
    ) -> bytes:
        """Read one object as bytes that `limits` hold for. Raises ResponseTooLarge."""
        target = resource.path(namespace, name)
        answer = await self._request(resource, "GET", target, max_bytes=limits.max_bytes)
        await check_json_aside(answer.body, limits)
        return answer.body

    async def undecoded_pages(
        self, resource: Resource[Any], *, limits: JsonLimits
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        """Yield all objects page by page as bytes, which are views of their page: copy what is kept.

        `limits` hold for one page. One that exceeds them, or with an object nested too deep to be told from the others,
        is requested again with fewer objects; alone, a nested object is returned without its content, as nothing.
        Raises ResponseTooLarge where a single object exceeds the limits, or the list the limit of this client.
        """
        token: str | None = None
        limit, size = UNDECODED_PAGE, 0
        while token != "":
            target = _target(resource.path(), {"limit": limit, "continue": token})
            try:
                answer = await self._request(resource, "GET", target, max_bytes=limits.max_bytes)
                await check_json_aside(answer.body, limits)
                await asyncio.sleep(0)  # counting takes milliseconds for megabytes, and so does decoding
                items, token = decoding_for(resource.type).raw_list(answer.body, without_nested=limit == 1)
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 4)
                continue
            size = self._measured(size, answer)
            yield items
            limit = min(UNDECODED_PAGE, 2 * limit)

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
    ) -> ObjectList[T]:
        """Read all objects, or those of a namespace, in pages. A list that outlives its pages raises Gone."""
        items: list[T] = []
        version = ""
        pages = self.pages(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, page_size=page_size
        )
        async for page in pages:
            items.extend(page.items)
            version = page.resource_version
        return ObjectList(tuple(items), version)

    async def list_revisions(
        self, resource: Resource[Any], namespace: str | None = None, *, label_selector: str | None = None
    ) -> tuple[Revision, ...]:
        """Return the name and revision of all objects, without their content (PartialObjectMetadata)."""
        named = dataclasses.replace(resource, type=Revision)
        return await self.list_metadata(named, namespace, label_selector=label_selector)

    async def list_metadata(
        self, resource: Resource[T], namespace: str | None = None, *, label_selector: str | None = None
    ) -> tuple[T, ...]:
        """Return all objects with their metadata alone (PartialObjectMetadata)."""
        found: list[T] = []
        token: str | None = None
        size = 0
        while True:
            query = {"labelSelector": label_selector, "limit": 1000, "continue": token}
            target = _target(resource.path(namespace), query)
            answer = await self._request(resource, "GET", target, accept=METADATA_ONLY)
            size = self._measured(size, answer)
            page = decoding_for(resource.type).list(answer.body)
            found.extend(page.items)
            if not page.continue_token:
                return tuple(found)
            token = page.continue_token

    async def pages(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
        unreadable: Callable[[ObjectUnreadable], None] | None = None,
    ) -> AsyncIterator[ObjectList[T]]:
        """Yield a list page by page; `page_size` 0 requests all at once.

        A page that is too large is requested again with fewer objects. With `unreadable`, an object that does not fit
        its type is reported there and left out.
        """
        decoding = decoding_for(resource.type)
        path = resource.path(namespace)
        query: dict[str, Any] = {"labelSelector": label_selector, "fieldSelector": field_selector}
        limit, size = page_size, 0
        while True:
            query["limit"] = limit or None
            try:
                max_bytes = None if limit == 1 else MAX_PAGE_BYTES
                answer = await self._request(resource, "GET", _target(path, query), max_bytes=max_bytes)
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, (limit or _WHOLE_LIST) // 4)
                continue
            size = self._measured(size, answer)
            try:
                page = decoding.list(answer.body)
            except ResponseInvalid:
                if unreadable is None:
                    raise
                page = await parse_aside(len(answer.body), decoding.readable_part, answer.body, unreadable)
            _complete(resource, page.items)
            yield page
            if not page.continue_token:
                return
            query["continue"] = page.continue_token
            limit = min(page_size, 2 * limit) if page_size else limit

    async def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Follow changes after a resource version, until the server ends the watch, as it does after a few minutes.

        Bookmarks are handed on. Raises Gone where the version is too old, ClusterUnreachable where the stream breaks
        or falls silent. Whoever leaves early closes it (`contextlib.aclosing`), for the connection is its own.
        """
        decoding = decoding_for(resource.type)
        lines = self.watch_lines(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        async with aclosing(lines):
            async for batch in lines:
                for line in batch:
                    event = decoding.event(line)
                    if isinstance(event, WatchEvent):
                        yield event
                    else:
                        yield WatchEvent(event[0], event[1], resource.version_of(event[1]))

    def watch_lines(
        self,
        resource: Resource[Any],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> AsyncGenerator[Sequence[bytes], None]:
        """Follow changes as `watch` does, giving undecoded lines, those that came together in one list."""
        query: dict[str, Any] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version or None,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": int(self._transport.options.watch_seconds),
        }
        return self._transport.lines(_target(resource.path(namespace), query))

    async def create(
        self,
        resource: Resource[T],
        document: Document,
        namespace: str | None = None,
        *,
        field_manager: str,
        dry_run: bool = False,
    ) -> T:
        """Create an object. Raises AlreadyExists where one of that name is there."""
        query = {
            "fieldManager": field_manager,
            "fieldValidation": "Strict",
            "dryRun": "All" if dry_run else None,
        }
        target = _target(resource.path(namespace), query)
        answer = await self._write(resource, "POST", target, body=_encode(resource, document))
        return decoding_for(resource.type).object(answer.body, may_be_virtual=True)

    async def create_subresource(
        self, resource: Resource[Any], name: str, namespace: str | None, subresource: str, document: Mapping[str, Any]
    ) -> JsonObject:
        """Create what a subresource makes, such as a token for a ServiceAccount or an eviction."""
        target = resource.path(namespace, name, subresource)
        return _document(await self._write(resource, "POST", target, body=msgspec.json.encode(document)))

    async def replace(
        self,
        resource: Resource[T],
        name: str,
        document: Document,
        namespace: str | None = None,
        *,
        field_manager: str,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Write a whole object over the revision whose resource version it carries. Raises Conflict for another."""
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}
        target = _target(resource.path(namespace, name, subresource), query)
        answer = await self._write(resource, "PUT", target, body=_encode(resource, document))
        return decoding_for(resource.type).object(answer.body)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        document: Document,
        namespace: str | None = None,
        *,
        field_manager: str,
        force: bool = True,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> T:
        """Apply the fields in the document, on the server's side: what this field manager no longer names, goes.

        The name need not be in the document, too. Without `force`, a field that somebody else owns raises Conflict.
        """
        applied = await self.apply_undecoded(
            resource,
            name,
            document,
            namespace,
            field_manager=field_manager,
            force=force,
            dry_run=dry_run,
            subresource=subresource,
        )
        return decoding_for(resource.type).object(applied.body)

    async def apply_undecoded(
        self,
        resource: Resource[Any],
        name: str,
        document: Document,
        namespace: str | None = None,
        *,
        field_manager: str,
        force: bool = True,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Applied:
        """Apply as `apply` does, and give the answer as bytes with the word whether the object is new."""
        query = {
            "fieldManager": field_manager,
            "fieldValidation": _NO_SECOND_PARSE,
            "force": "true" if force else "false",
            "dryRun": "All" if dry_run else None,
        }
        target = _target(resource.path(namespace, name, subresource), query)
        body = _as_yaml(_encode(resource, document, name))
        answer = await self._write(resource, "PATCH", target, body=body, content_type=_APPLY)
        return Applied(answer.body, answer.code == 201)

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Change the fields in the patch; null removes one. A resource version in its metadata is a precondition."""
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}
        target = _target(resource.path(namespace, name, subresource), query)
        body = msgspec.json.encode(patch)
        answer = await self._write(resource, "PATCH", target, body=body, content_type=_MERGE)
        return decoding_for(resource.type).object(answer.body)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete an object; one with finalizers stays until they are gone. Preconditions that fail raise Conflict."""
        await self.delete_and_see(
            resource, name, namespace, propagation=propagation, uid=uid, resource_version=resource_version
        )

    async def delete_and_see(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> JsonObject | None:
        """Delete as `delete` does; return the object if it stays for a while, None if it is gone."""
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in given.items() if value}
        options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        target = resource.path(namespace, name)
        left = _document(await self._write(resource, "DELETE", target, body=msgspec.json.encode(options)))
        staying = left.get("kind") != "Status" and bool((left.get("metadata") or {}).get("deletionTimestamp"))
        return left if staying else None

    async def raw(self, method: str, target: str, *, body: bytes | None = None, accept: str | None = None) -> bytes:
        """Send a request for which there is no method here, as `kubectl get --raw` does; return the body.

        `target` is path and query, already quoted; `accept` requests another representation than JSON.
        Raises ApiError, ClusterUnreachable and ResponseInvalid.
        """
        return (await self._transport.request(method, target, body=body, accept=accept, fence=self._fence)).body

    def _measured(self, list_bytes: int, page: ServerResponse) -> int:
        """Return the size of a list with one more page. Raises ResponseTooLarge where that is over the limit."""
        max_bytes = self._transport.options.max_list_bytes
        if max_bytes is None:
            return 0
        list_bytes += max(len(page.body), MIN_PAGE_BYTES)
        if list_bytes > max_bytes:
            raise ResponseTooLarge(f"the list is longer than {max_bytes} bytes")
        return list_bytes

    async def _write(
        self, resource: Resource[Any], method: str, target: str, *, body: bytes, content_type: str = _JSON
    ) -> ServerResponse:
        return await self._request(resource, method, target, body=body, content_type=content_type, fence=self._fence)

    async def _request(self, resource: Resource[Any], method: str, target: str, **given: Any) -> ServerResponse:
        """Send a request for objects of a kind. Raises KindUnknown where these are not served at its path (any more).

        Then the kind is looked up again by whoever needs it next: it may have been created anew, with another scope.
        """
        try:
            return await self._transport.request(method, target, **given)
        except NotServed as error:
            self.mapper.recheck(resource.api_version)
            raise KindUnknown(resource.api_version, resource.kind) from error
        except MethodNotAllowed:
            self.mapper.recheck(resource.api_version)
            raise


def _target(path: str, query: Mapping[str, Any]) -> str:
    given = "&".join(f"{key}={_quoted(str(value))}" for key, value in query.items() if value is not None)
    return f"{path}?{given}" if given else path


@lru_cache(maxsize=256)
def _quoted(value: str) -> str:
    return quote(value, safe="")


def _as_yaml(body: bytes) -> bytes:
    """Return a JSON text with escapes for what a reader of YAML refuses, or returns as a space."""
    if body.isascii() and b"\x7f" not in body:
        return body
    return _ONLY_IN_JSON.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), body)


def _encode(resource: Resource[Any], document: Document, name: str = "") -> bytes:
    """Return the document as JSON; apiVersion and kind are the resource's where it does not say, and so is the name."""
    built: Any = document if isinstance(document, Mapping) else msgspec.to_builtins(document)
    if "apiVersion" not in built or "kind" not in built:
        built = {"apiVersion": resource.api_version, "kind": resource.kind, **built}
    if name and not (built.get("metadata") or {}).get("name"):
        built = {**built, "metadata": {**(built.get("metadata") or {}), "name": name}}
    return msgspec.json.encode(built)


def _document(answer: ServerResponse) -> JsonObject:
    try:
        return msgspec.json.decode(answer.body, type=JsonObject)
    except UNDECODABLE as error:
        raise ResponseInvalid(f"the answer is no JSON object: {error}") from None


def _complete(resource: Resource[Any], items: tuple[Any, ...]) -> None:
    """Give dicts their kind, which the API server leaves out in the list of a built-in kind."""
    if resource.type is dict:
        for item in items:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
