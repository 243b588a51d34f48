"""Reading objects of one cluster: one by name, lists page by page, and watches."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from kube_runtime.client.bodies import Fence
from kube_runtime.client.decoding import UNDECODABLE, WatchEvent, decoding_for
from kube_runtime.client.discovery import METADATA_ONLY, RestMapper
from kube_runtime.client.json_limits import JsonLimits, check_json_aside
from kube_runtime.client.kubeconfig import Connection
from kube_runtime.client.options import DEFAULT_OPTIONS, ClientOptions
from kube_runtime.client.transport import ServerResponse, Transport
from kube_runtime.exceptions import (
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

_WHOLE_LIST = 2_000
MIN_PAGE_BYTES = 16 * 1024  # what a page counts at least: so small ones end too
MAX_PAGE_BYTES = 32 * 1024 * 1024
UNDECODED_PAGE = 50


class RevisionMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The identity of one revision of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Revision(msgspec.Struct, frozen=True):
    """One object in one revision, without its content."""

    metadata: RevisionMetadata


class Reader:
    """What a client reads. Every call raises what `Client` says."""

    def __init__(self, connection: Connection, options: ClientOptions = DEFAULT_OPTIONS) -> None:
        self._transport = Transport(connection, options)
        self._fence: Fence | None = None
        self.mapper = RestMapper(self._transport)
        self.server = connection.server

    async def server_version(self) -> str:
        """Return the version of the API server, such as `v1.36.1`."""
        answer = await self._transport.request("GET", "/version")
        return str(document_in(answer).get("gitVersion", ""))

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

        `limits` hold for one page. A page that exceeds them, or that has an object nested too deep to read the others,
        is requested again with fewer objects; alone, a nested object is returned without its content, as nothing.
        Raises ResponseTooLarge where a single object exceeds the limits, or the list the limit of this client.
        """
        token: str | None = None
        limit, size = UNDECODED_PAGE, 0
        while token != "":
            target = target_of(resource.path(), {"limit": limit, "continue": token})
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
        unreadable: Callable[[ObjectUnreadable], None] | None = None,
    ) -> ObjectList[T]:
        """Read all objects, or those of a namespace, by `pages`. A list that outlives its pages raises Gone."""
        items: list[T] = []
        version = ""
        pages = self.pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
            unreadable=unreadable,
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
        return tuple([each async for each in self.each_metadata(resource, namespace, label_selector=label_selector)])

    async def each_metadata(
        self, resource: Resource[T], namespace: str | None = None, *, label_selector: str | None = None
    ) -> AsyncIterator[T]:
        """Yield all objects with their metadata alone; no page is kept while the next one is read."""
        pages = self.pages(resource, namespace, label_selector=label_selector, page_size=1000, accept=METADATA_ONLY)
        async for page in pages:
            for each in page.items:
                yield each
            del page

    async def pages(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
        unreadable: Callable[[ObjectUnreadable], None] | None = None,
        accept: str | None = None,
    ) -> AsyncIterator[ObjectList[T]]:
        """Yield a list page by page; `page_size` 0 requests all at once, `accept` another representation than JSON.

        A page that is too large is requested again with fewer objects. With `unreadable`, an object that does not fit
        its type is reported there and left out.
        """
        decoding = decoding_for(resource.type)
        path = resource.path(namespace)
        query: dict[str, Any] = {"labelSelector": label_selector, "fieldSelector": field_selector}
        limit, size, values = page_size, 0, 0
        while True:
            query["limit"] = limit or None
            try:
                max_bytes = None if limit == 1 else MAX_PAGE_BYTES
                target = target_of(path, query)
                answer = await self._request(resource, "GET", target, accept=accept, max_bytes=max_bytes)
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, (limit or _WHOLE_LIST) // 4)
                continue
            size = self._measured(size, answer)
            if resource.type is dict:  # else what is no field is not kept
                values = await self._counted(values, answer)
            try:
                page = decoding.list(answer.body)
            except ResponseInvalid:
                if unreadable is None:
                    raise
                page = await parse_aside(len(answer.body), decoding.readable_part, answer.body, unreadable)
            _complete(resource, page.items)
            query["continue"] = page.continue_token
            yield page
            if not query["continue"]:
                return
            del page, answer  # they are not kept while the next one is read
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
                    yield decoding.event(line)

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
        return self._transport.lines(target_of(resource.path(namespace), query))

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

    async def _counted(self, list_values: int, page: ServerResponse) -> int:
        """Return the values of a list with one more page. Raises ResponseTooLarge where these are over the limit."""
        most = self._transport.options.max_values
        if most is None:
            return 0
        list_values += await check_json_aside(page.body, JsonLimits(len(page.body), most, max_depth=None))
        if list_values > most:
            raise ResponseTooLarge(f"the list has more than {most} values")
        return list_values

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


def target_of(path: str, query: Mapping[str, Any]) -> str:
    given = "&".join(f"{key}={_quoted(str(value))}" for key, value in query.items() if value is not None)
    return f"{path}?{given}" if given else path


@lru_cache(maxsize=256)
def _quoted(value: str) -> str:
    return quote(value, safe="")


def document_in(answer: ServerResponse) -> JsonObject:
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
