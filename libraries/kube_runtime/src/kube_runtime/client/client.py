"""The verbs of the Kubernetes API on typed objects, for one cluster."""

import copy
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import msgspec

from kube_runtime.client.bodies import Fence
from kube_runtime.client.decoding import decoding_for
from kube_runtime.client.emptied import emptying, nulls_in
from kube_runtime.client.kubeconfig import (
    STRICT,
    KubeconfigPolicy,
    connection_from_kubeconfig,
    connection_of_environment,
)
from kube_runtime.client.options import DEFAULT_OPTIONS, ClientOptions
from kube_runtime.client.outgrown import forgotten_owners, replacing, unfit_in
from kube_runtime.client.reading import Reader, document_in, target_of
from kube_runtime.client.removed_versions import removed_version, renaming
from kube_runtime.client.transport import ServerResponse
from kube_runtime.exceptions import (
    ApiError,
    ClusterUnreachable,
    Invalid,
    ServerUnavailable,
)
from kube_runtime.resource import JsonObject, Resource

T = TypeVar("T")
Document = Mapping[str, Any] | msgspec.Struct
Propagation = Literal["Background", "Foreground", "Orphan"]

_APPLY = "application/apply-patch+yaml"  # JSON is YAML, and much faster to read
_ONLY_IN_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
# An apply is checked against the schema in any case. Validation adds a search for fields that the text has twice, for
# which the server parses it once more as YAML, and a document that was made from a mapping has none.
_NO_SECOND_PARSE = "Ignore"
_JSON = "application/json"
_MERGE = "application/merge-patch+json"


class Client(Reader):
    """A client of one cluster, with one pool of connections. Use it as an async context manager, or close it.

    Every call raises ApiError (by reason: NotFound, KindUnknown, Conflict, ...), ClusterUnreachable, ResponseInvalid,
    or AddressInvalid where no object can have such a name.
    """

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

    @property
    def failure(self) -> ClusterUnreachable | None:
        """Why no requests are sent to the server at present; None while they are, or without a circuit."""
        return self._transport.circuit.failure

    async def probe(self) -> None:
        """Send a request that closes the circuit if the server responds at all. Raises ClusterUnreachable."""
        with suppress(ApiError):
            await self._transport.request("GET", "/version", probe=True)

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
        target = target_of(resource.path(namespace), query)
        answer = await self._write(resource, "POST", target, body=_encode(resource, document))
        return decoding_for(resource.type).object(answer.body, may_be_virtual=True)

    async def create_subresource(
        self, resource: Resource[Any], name: str, namespace: str | None, subresource: str, document: Mapping[str, Any]
    ) -> JsonObject:
        """Create what a subresource makes, such as a token for a ServiceAccount or an eviction."""
        target = resource.path(namespace, name, subresource)
        return document_in(await self._write(resource, "POST", target, body=msgspec.json.encode(document)))

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
        target = target_of(resource.path(namespace, name, subresource), query)
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
    ) -> ServerResponse:
        """Apply as `apply` does, and return the object undecoded; the code is 201 where it is new.

        Where the server would refuse it for ever, a patch comes first: owners of fields in a version that the kind no
        longer has are moved to the present one, a map of which the server makes a null is emptied, and by force a value
        is replaced that does not fit its schema any more.
        """
        query = {
            "fieldManager": field_manager,
            "fieldValidation": _NO_SECOND_PARSE,
            "force": "true" if force else "false",
            "dryRun": "All" if dry_run else None,
        }
        target = target_of(resource.path(namespace, name, subresource), query)
        body = _as_yaml(_encode(resource, document, name))
        try:
            return await self._write(resource, "PATCH", target, body=body, content_type=_APPLY)
        except (ServerUnavailable, Invalid) as refusal:
            place = (resource.group, resource.version, resource.kind, resource.plural, resource.namespaced)
            plain = Resource.dynamic(*place)

            async def patch(change: JsonObject) -> JsonObject:
                return await self.merge_patch(
                    plain, name, change, namespace, subresource=subresource, field_manager=field_manager
                )

            try:
                if dry_run or not await _make_way(
                    refusal,
                    lambda: self.get(plain, name, namespace),
                    patch,
                    body=body,
                    api_version=resource.api_version,
                    force=force,
                ):
                    raise
            except ApiError:
                raise refusal from None
        return await self._write(resource, "PATCH", target, body=body, content_type=_APPLY)

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
        target = target_of(resource.path(namespace, name, subresource), query)
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
    ) -> JsonObject | None:
        """Delete an object; return it if it stays, as one with finalizers does until they are gone, None if it is gone.

        Preconditions that fail raise Conflict.
        """
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in given.items() if value}
        options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        target = resource.path(namespace, name)
        left = document_in(await self._write(resource, "DELETE", target, body=msgspec.json.encode(options)))
        staying = left.get("kind") != "Status" and bool((left.get("metadata") or {}).get("deletionTimestamp"))
        return left if staying else None

    async def _write(
        self, resource: Resource[Any], method: str, target: str, *, body: bytes, content_type: str = _JSON
    ) -> ServerResponse:
        return await self._request(resource, method, target, body=body, content_type=content_type, fence=self._fence)


async def _make_way(
    refusal: ServerUnavailable | Invalid,
    read: Callable[[], Awaitable[JsonObject]],
    patch: Callable[[JsonObject], Awaitable[JsonObject]],
    *,
    body: bytes,
    api_version: str,
    force: bool,
) -> bool:
    """Patch an object so that an apply is accepted that was refused; tell whether that is done. Raises KubeError.

    No value is changed for a document that is meant for another revision of the object.
    """
    removed = removed_version(refusal)
    nulls, unfit = (nulls_in(refusal), unfit_in(refusal)) if isinstance(refusal, Invalid) else ((), ())
    if not (removed or nulls or (unfit and force)):
        return False
    live = await read()
    if removed:
        change = renaming(live, removed, api_version)
    else:
        document, revision = msgspec.json.decode(body), live["metadata"]["resourceVersion"]
        if document["metadata"].get("resourceVersion", revision) != revision:
            return False
        change = emptying(live, document, nulls) if nulls else replacing(live, document, unfit)
    if change is None:
        return False
    patched = await patch(change)
    if unfit and (owners := forgotten_owners(live, patched)) is not None:
        await patch(owners)
    return True


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
