"""POST /v2/<manager>/event: takes an event, or answers why not."""

import math
import re
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kube_runtime import SYSTEM_CLOCK, Clock, RateLimits
from kube_runtime.leases.handover import NotHandedOver
from lifecycle_manager.contract.watchers import EVENT_CONTRACT
from lifecycle_manager.events.arrival import FORWARDED_CERTIFICATE, Network, arrival_of
from lifecycle_manager.events.guards import Nonces, digest_of
from lifecycle_manager.events.identity import NO_FORMER_WATCHERS, FormerWatchers, Identifier, Message, Sender
from lifecycle_manager.events.problems import EventRefused, Reason
from lifecycle_manager.process.serving import BodyTooLarge, read_body
from lifecycle_manager_api import MalformedEvent, WatchEvent, decode_event, names

# Header fields that decide about something: each may occur once.
DECIDING_FIELDS = {
    name.encode(): name
    for name in (
        "signature-input",
        "signature",
        "content-digest",
        "client-cert",
        "content-type",
        "content-encoding",
        "host",
        FORWARDED_CERTIFICATE,
    )
}


TAKEN = Response(status_code=200)
EVENT_PATH = re.compile(f"/{EVENT_CONTRACT}/([^/]+)/event")
NOT_CHARGED = frozenset({Reason.NOT_READY, Reason.NOT_HANDED_OVER, Reason.RATE})
"""Refusals that are not the sender's fault, or counted already."""


class VerifiedEvent(msgspec.Struct, frozen=True):
    """An event whose sender is known; `by_former_watcher` where that is the Watcher of a former version."""

    runtime_id: str
    manager: str
    event: WatchEvent
    received_at: datetime
    by_former_watcher: bool = False


Subscriber = Callable[[VerifiedEvent], Awaitable[None]]
"""Takes an event, on this replica or on the one that has the Kyma. Raises UnknownRuntime, NotHandedOver."""


class UnknownRuntime(Exception):
    """The certificate is valid, but no Kyma has its runtime id."""

    def __init__(self, runtime_id: str) -> None:
        super().__init__(f"no Kyma has the runtime id {runtime_id!r}")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Limits of the endpoint, and whom it trusts. Clocks may differ by `skew_seconds`.

    Above `refusals_per_second` a peer whose requests are refused gets 429 before anything of them is read.
    With `require_peer` a sender has to present its certificate in TLS too, where TLS ends in this process. Proxies at
    `trusted_proxies` may terminate it. The sender of an unsigned event is the TLS peer, or whom such a proxy names.
    """

    max_body_bytes: int = 16 * 1024
    max_header_bytes: int = 32 * 1024
    max_fields: int = 64
    skew_seconds: int = 30
    max_signature_seconds: int = 300
    refusals_per_second: float = 5.0
    refusal_burst: int = 100
    events_per_second: float = 50.0
    burst: int = 200
    require_peer: bool = False
    accept_unsigned: bool = False
    trusted_proxies: tuple[Network, ...] = ()


@dataclass(eq=False, kw_only=True)
class EventEndpoint:
    """The endpoint. It takes events for each of `managers`, all of which have the same subscriber.

    `trust` gives the CAs that issue senders' certificates as PEM, and `revoked_before` the time from which on the
    certificates of a runtime must be valid. `is_runtime` tells whether a common name is that of a Kyma's runtime: who
    has its certificate is no proxy, whatever its address.
    """

    trust: Callable[[], bytes]
    subscriber: Subscriber
    ready: Callable[[], bool]
    managers: Callable[[], Container[str]] = lambda: (names.LIFECYCLE_MANAGER,)
    revoked_before: Callable[[str], datetime | None] = lambda _: None
    is_runtime: Callable[[str], bool] = lambda _: False
    count_refusal: Callable[[Reason], None] = lambda _: None
    former_watchers: FormerWatchers = NO_FORMER_WATCHERS
    options: EndpointOptions = EndpointOptions()
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        options = self.options
        self._identifier = Identifier(
            skew_seconds=options.skew_seconds,
            max_seconds=options.max_signature_seconds,
            accept_unsigned=options.accept_unsigned,
            require_peer=options.require_peer,
            former_watchers=self.former_watchers,
        )
        self._nonces = Nonces()
        self._rates = RateLimits[str](options.events_per_second, options.burst)
        self._refusals = RateLimits[str](options.refusals_per_second, options.refusal_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A framework's layers would take a seventh of the CPU of an event."""
        found = EVENT_PATH.fullmatch(scope["path"])
        if found is None:
            response = self._refuse(EventRefused(Reason.UNKNOWN_PATH, "no such path"))
        elif scope["method"] != "POST":
            response = self._refuse(EventRefused(Reason.METHOD, "send events by POST"))
            response.headers["Allow"] = "POST"
        else:
            response = await self._handle(Request(scope, receive), found[1])
        await response(scope, receive, send)

    async def _handle(self, request: Request, manager: str) -> Response:
        arrival = arrival_of(request.scope, self.options.trusted_proxies, self.is_runtime)
        peer = _name_of(arrival.peer_der) if arrival.peer_der is not None and not arrival.by_proxy else ""
        moment = self.clock.monotonic()
        try:
            if peer and (wait := self._refusals.wait(peer, moment)):
                raise _too_many(wait)
            self._require_known(manager)
            fields = self._fields(request)
            message = Message(fields, await self._body(request, fields), _target_uri(request, fields), arrival)
            await self._take(message, manager)
        except EventRefused as refused:
            if peer and refused.reason not in NOT_CHARGED:
                self._refusals.grants(peer, moment)
            return self._refuse(refused)
        return TAKEN

    def _refuse(self, refused: EventRefused) -> Response:
        self.count_refusal(refused.reason)
        return refused.response()

    async def _take(self, message: Message, manager: str) -> None:
        """Verify an event and give it to the subscriber. Raises EventRefused."""
        now, moment = self.clock.now(), self.clock.monotonic()
        peer, trust = None if message.arrival.by_proxy else message.arrival.peer_der, self.trust()
        # A header must not decide this: anybody could use up the rate of another runtime.
        known = self._identifier.known(peer, trust) if peer is not None else None
        if known is not None and (wait := self._rates.wait(known, moment)):
            raise _too_many(wait)
        sender = self._identifier.identify(message, trust=trust, now=now, is_replay=self._nonces.knows)
        revoked = self.revoked_before(sender.runtime_id)
        if revoked is not None and sender.not_before < revoked:
            raise EventRefused(Reason.REVOKED, "this certificate is revoked; a new one is being issued")
        self._guard(sender, now.timestamp(), moment)
        try:
            event = decode_event(message.body)
        except MalformedEvent as error:
            raise EventRefused(Reason.MALFORMED, str(error)) from None
        try:
            verified = VerifiedEvent(sender.runtime_id, manager, event, now, by_former_watcher=sender.is_former)
            await self.subscriber(verified)
        except UnknownRuntime as error:
            raise EventRefused(Reason.UNKNOWN_RUNTIME, str(error)) from None
        except NotHandedOver as error:
            raise EventRefused(Reason.NOT_HANDED_OVER, str(error), retry_after=1) from None

    def _guard(self, sender: Sender, now: float, moment: float) -> None:
        """Refuse floods, and remember the nonce of what is accepted. Raises EventRefused."""
        signed = sender.parameters
        if not self._rates.grants(sender.runtime_id, moment):
            raise _too_many(self._rates.wait(sender.runtime_id, moment))
        if signed is not None:
            until = signed.expires + self.options.skew_seconds
            self._nonces.remember(signed.keyid, signed.nonce, until, now)

    def _require_known(self, manager: str) -> None:
        """Raises EventRefused for an unknown manager in the path, or where this replica does not work."""
        if not self.ready():
            raise EventRefused(Reason.NOT_READY, "this replica is starting or stopping", retry_after=1)
        if manager not in self.managers():
            raise EventRefused(Reason.UNKNOWN_MANAGER, f"no Watcher CR has the manager {manager[:64]!r}")

    def _fields(self, request: Request) -> dict[str, str]:
        """Return the header fields that decide about something, each of which may occur once. Raises EventRefused."""
        raw = request.scope["headers"]
        if len(raw) > self.options.max_fields:
            raise EventRefused(Reason.TOO_LARGE, "the header has too many fields")
        if sum(map(len, chain.from_iterable(raw))) > self.options.max_header_bytes:
            raise EventRefused(Reason.TOO_LARGE, "the header is too large")
        found: dict[str, str] = {}
        for name, value in raw:
            deciding = DECIDING_FIELDS.get(name)
            if deciding is None:
                continue
            if deciding in found:
                raise EventRefused(Reason.DUPLICATE_FIELD, f"the header field {deciding} occurs more than once")
            found[deciding] = value.decode("latin-1")
        return found

    async def _body(self, request: Request, fields: Mapping[str, str]) -> bytes:
        """Read the body up to its limit. Raises EventRefused."""
        if fields.get("content-type") != "application/json" or "content-encoding" in fields:
            raise EventRefused(Reason.MEDIA_TYPE, "send application/json without Content-Encoding")
        limit = self.options.max_body_bytes
        try:
            return await read_body(request, limit)
        except BodyTooLarge:
            raise EventRefused(Reason.TOO_LARGE, f"an event may have {limit} bytes") from None
        except ClientDisconnect:
            raise EventRefused(Reason.INCOMPLETE, "the connection ended within the body") from None


@lru_cache(maxsize=4096)
def _name_of(peer_der: bytes) -> str:
    """Return a short name of a TLS peer. It is asked for with each event of a connection."""
    return digest_of(peer_der.hex()).hex()


def _too_many(wait: float) -> EventRefused:
    detail = "this runtime sends more events than its rate allows"
    return EventRefused(Reason.RATE, detail, retry_after=math.ceil(wait))


def _target_uri(request: Request, fields: Mapping[str, str]) -> str:
    """Return the URI that the sender addressed, as it was sent (RFC 9421, section 2.2.2)."""
    path = request.scope.get("raw_path") or request.url.path.encode()
    query = request.scope.get("query_string", b"")
    target = path.partition(b"?")[0] + (b"?" + query if query else b"")
    return f"https://{fields.get('host', '')}{target.decode('ascii', 'replace')}"
