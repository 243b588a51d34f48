"""POST /v2/<manager>/event: takes an event, or says why not."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from lifecycle_manager.events.guards import Nonces, Peers, Rates
from lifecycle_manager.events.identity import Identifier
from lifecycle_manager.events.openapi import CONTRACT, openapi_document
from lifecycle_manager.events.problems import Refused
from lifecycle_manager.serving import BodyTooLarge, read_body
from lifecycle_manager_api import MalformedEvent, WatchEvent, decode_event

SIGNED_FIELDS = ("signature-input", "signature", "content-digest", "client-cert", "content-type")


@dataclass(frozen=True, slots=True)
class VerifiedEvent:
    """An event whose sender is known."""

    runtime_id: str
    manager: str
    event: WatchEvent
    received_at: datetime


Subscriber = Callable[[VerifiedEvent], None]


class UnknownRuntime(Exception):
    """The certificate is good, and there is no Kyma of its runtime."""

    def __init__(self, runtime_id: str) -> None:
        super().__init__(f"there is no Kyma of the runtime {runtime_id!r}")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Limits of the endpoint. Clocks may differ by `skew_seconds`."""

    largest_body: int = 16 * 1024
    skew_seconds: int = 30
    longest_signature_seconds: int = 300
    events_per_second: float = 50.0
    burst: int = 200


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def create_app(
    *,
    trust: Callable[[], bytes],
    subscribers: Mapping[str, Subscriber],
    ready: Callable[[], bool],
    options: EndpointOptions = EndpointOptions(),
    clock: Callable[[], datetime] = utc_now,
) -> FastAPI:
    """Return the application. `trust` gives the bundle of authorities that senders' certificates lead to."""
    endpoint = _Endpoint(trust, subscribers, ready, options, clock)
    app = FastAPI(title="Lifecycle Manager events", version=CONTRACT)
    app.openapi = openapi_document  # type: ignore[method-assign]  # the hot path is no FastAPI operation
    app.add_route(f"/{CONTRACT}/{{manager}}/event", endpoint.handle, methods=["POST"])
    return app


class _Endpoint:
    def __init__(
        self,
        trust: Callable[[], bytes],
        subscribers: Mapping[str, Subscriber],
        ready: Callable[[], bool],
        options: EndpointOptions,
        clock: Callable[[], datetime],
    ) -> None:
        self._trust = trust
        self._subscribers = subscribers
        self._ready = ready
        self._options = options
        self._clock = clock
        longest = options.longest_signature_seconds
        self._identifier = Identifier(skew_seconds=options.skew_seconds, longest_seconds=longest)
        self._nonces = Nonces(longest + 2 * options.skew_seconds)
        self._rates = Rates(options.events_per_second, options.burst)
        self._peers = Peers()

    async def handle(self, request: Request) -> Response:
        try:
            body = await self._body(request)
            self._take(request, body)
        except Refused as refused:
            return refused.response()
        return Response(status_code=200)

    def _take(self, request: Request, body: bytes) -> None:
        """Verify an event and hand it to its subscriber; nothing here waits. Raises Refused."""
        if not self._ready():
            raise Refused(503, "Not ready", "this replica is starting or stopping", retry_after=1)
        manager = request.path_params["manager"]
        subscriber = self._subscribers.get(manager)
        if subscriber is None:
            raise Refused(404, "Unknown manager", f"nobody takes events for {manager!r}")
        now = self._clock()
        moment = now.timestamp()
        peer_der = request.scope.get("extensions", {}).get("tls", {}).get("client_cert_der")
        known = self._peers.runtime_of(peer_der)
        if known is not None and (wait := self._rates.exhausted(known, moment)):
            raise _too_many(wait)
        sender = self._identifier.identify(
            _signed_fields(request),
            body,
            _target_uri(request),
            trust=self._trust(),
            peer_der=peer_der,
            now=now,
        )
        self._peers.remember(peer_der, sender.runtime_id)
        if wait := self._rates.wait(sender.runtime_id, moment):
            raise _too_many(wait)
        if not self._nonces.is_new(sender.parameters.keyid, sender.parameters.nonce, moment):
            raise Refused(409, "Replayed", "this nonce was used before")
        try:
            event = decode_event(body)
        except MalformedEvent as error:
            raise Refused(400, "Malformed event", str(error)) from None
        try:
            subscriber(VerifiedEvent(sender.runtime_id, manager, event, now))
        except UnknownRuntime as error:
            raise Refused(403, "Unknown runtime", str(error)) from None

    async def _body(self, request: Request) -> bytes:
        """Read the body up to its limit. Raises Refused."""
        if request.headers.get("content-type", "") != "application/json":
            raise Refused(415, "Unsupported media type", "send application/json")
        try:
            return await read_body(request, self._options.largest_body)
        except BodyTooLarge:
            raise Refused(413, "Too large", f"an event may have {self._options.largest_body} bytes") from None


def _too_many(wait: float) -> Refused:
    return Refused(429, "Too many events", "this runtime is over its rate", retry_after=math.ceil(wait))


def _target_uri(request: Request) -> str:
    """Return the URI that the sender addressed, as it was sent (RFC 9421, section 2.2.2)."""
    path = request.scope.get("raw_path") or request.url.path.encode()
    query = request.scope.get("query_string", b"")
    target = path.partition(b"?")[0] + (b"?" + query if query else b"")
    return f"https://{request.headers.get('host', '')}{target.decode('ascii', 'replace')}"


def _signed_fields(request: Request) -> dict[str, str]:
    """Return the header fields that carry the signature, each of which may stand there once. Raises Refused."""
    found: dict[str, str] = {}
    for name in SIGNED_FIELDS:
        values = request.headers.getlist(name)
        if len(values) > 1:
            raise Refused(400, "Malformed request", f"the header field {name} stands there more than once")
        if values:
            found[name] = values[0]
    return found
