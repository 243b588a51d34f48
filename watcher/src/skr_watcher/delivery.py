"""Sends events to the control plane: signed, over mutual TLS, one warm connection, again and again until taken."""

import asyncio
import base64
import logging
import secrets
import ssl
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from random import random

import httpx
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kyma_certs import ReloadingClientContext, describe_certificate
from kyma_certs.message_signatures import (
    CONTENT_TYPE,
    SignatureParameters,
    SigningKey,
    algorithm_of,
    load_signing_key,
    sign,
)
from skr_watcher.changes import HEARTBEAT
from skr_watcher.logs import Quota
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Entry, Outbox
from skr_watcher.settings import OURS, UPSTREAM, Settings

log = logging.getLogger("skr_watcher.delivery")

SIGNATURE_SECONDS = 120
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 15.0
TIMEOUT_SECONDS = 10.0
WHOLE_ANSWER_SECONDS = 20.0
LARGEST_ANSWER = 4096
IN_FLIGHT = 8
DEFAULT_KYMA: dict[str, object] = {
    "watched": {"Namespace": "kyma-system", "Name": "default"},
    "watchedGvk": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
}
LONGEST_RETRY_AFTER_SECONDS = 300.0
# The control plane takes so many a second of one cluster, and what is told later is told as the newest of its object.
EVENTS_PER_SECOND = 40.0
BURST = 20
# What no repetition will change. The control plane's own answers 401 and 403 are not among them: a certificate is
# renewed, a clock put right, a Kyma created; nor is 409, because each attempt has a nonce of its own, so that it was a
# gateway which sent one of them twice.
FUTILE = frozenset({400, 404, 405, 413, 415})
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class _Signer:
    key: SigningKey = field(repr=False)
    keyid: str
    client_cert: str


class Identity:
    """The certificate that events are sent and signed with. It follows its files."""

    def __init__(self, settings: Settings) -> None:
        self._files = (settings.tls_cert, settings.tls_key)
        self._signs = settings.kcp_listener == OURS
        self._context = ReloadingClientContext(settings.tls_cert, settings.tls_key, settings.ca_cert)
        self._complete = True
        self._signer = self._load()

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context of new connections."""
        return self._context.ssl_context

    def check(self) -> bool:
        """Follow the files; return whether they changed."""
        changed = False
        while self._context.check():
            changed, self._complete = True, False
        if not self._complete:
            try:
                self._signer, self._complete = self._load(), True
            except (OSError, ValueError) as error:  # caught while they are being written
                log.warning("the certificate files are not usable yet", extra={"detail": str(error)})
        return changed

    def headers(self, url: str, body: bytes) -> dict[str, str]:
        """Return the header fields that sign a body, or those of an event that is the TLS connection's word alone."""
        if self._signer is None:
            return {"Content-Type": CONTENT_TYPE}
        signer, now = self._signer, int(time.time())
        parameters = SignatureParameters(
            now, now + SIGNATURE_SECONDS, secrets.token_urlsafe(16), signer.keyid, algorithm_of(signer.key)
        )
        return {**sign(url, body, signer.key, parameters), "Client-Cert": signer.client_cert}

    def _load(self) -> "_Signer | None":
        """Read who signs; None where nobody does. Raises OSError or ValueError where the files don't go together."""
        cert_file, key_file = self._files
        if not self._signs:
            return None
        certificate = x509.load_pem_x509_certificate(cert_file.read_bytes())
        if isinstance(certificate.public_key(), rsa.RSAPublicKey):
            log.warning("events are not signed: the profile has no algorithm for RSA keys")
            return None
        key = load_signing_key(key_file.read_bytes())
        if key.public_key() != certificate.public_key():
            raise ValueError("the private key is not the certificate's")
        der = certificate.public_bytes(serialization.Encoding.DER)
        return _Signer(key, describe_certificate(certificate).sha256, f":{base64.b64encode(der).decode()}:")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the control plane says, and the beginning of why; of what somebody hostile sends, no more is read."""

    status: int
    headers: httpx.Headers
    text: str


class Pace:
    """So many turns a second on average, with bursts: sending must leave the processor to admission."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._seconds = 1 / per_second
        self._allowance = burst / per_second
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next turn."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._allowance) + self._seconds
        await asyncio.sleep(max(0.0, self._next - now))


class Delivery:
    """Takes entries out of the outbox and brings them to the control plane."""

    def __init__(self, settings: Settings, outbox: Outbox, identity: Identity, metrics: Metrics) -> None:
        self._outbox = outbox
        self._identity = identity
        self._metrics = metrics
        self._root = f"https://{settings.kcp_address}/{settings.kcp_contract}"
        self._pace = Pace(EVENTS_PER_SECOND, BURST)
        self._quota = Quota()
        self._epoch = secrets.token_hex(8)
        self._failures = 0
        self._client = self._new_client()
        self._under_way: Counter[httpx.AsyncClient] = Counter()
        self._upstream = settings.kcp_listener == UPSTREAM
        self._taken_at = time.monotonic()

    @property
    def quiet_seconds(self) -> float:
        """How long ago an event was taken last, or this was made."""
        return time.monotonic() - self._taken_at

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(IN_FLIGHT):
                    tasks.create_task(self._work(), name=f"delivery {number}")
        finally:
            await self._client.aclose()

    async def _work(self) -> None:
        while True:
            await self._pace.turn()
            entry = await self._outbox.take()
            try:
                await self._deliver(entry)
            except asyncio.CancelledError:
                self._outbox.again(entry, 0)
                raise

    async def _deliver(self, entry: Entry) -> None:
        await self._follow_identity()
        url = f"{self._root}/{entry.change.manager}/event"
        body = self._body(entry)
        started = time.perf_counter()
        try:
            answer = await self._post(url, body)
        except (httpx.HTTPError, ssl.SSLError, TimeoutError) as error:
            self._try_again(entry, type(error).__name__, str(error), None)
            return
        milliseconds = round((time.perf_counter() - started) * 1000, 2)
        if answer.status == 200:
            self._failures, self._taken_at = 0, time.monotonic()
            self._metrics.delivered()
            self._outbox.done(entry)
            if self._quota.grants(time.time()):
                extra = {**_facts(entry), "milliseconds": milliseconds, "status": 200}
                log.log(entry.change.log_level, "event delivered", extra=extra)
        elif self._is_final(answer):
            self._metrics.failed(str(answer.status), again=False)
            self._outbox.done(entry)
            log.error("event refused", extra={**_facts(entry), "status": answer.status, "answer": answer.text})
        else:
            self._try_again(entry, str(answer.status), answer.text, answer.headers.get("retry-after"))

    def _is_final(self, answer: _Answer) -> bool:
        """Tell whether it is the control plane's word, and for good; a gateway may say the same while it is away."""
        spoken = self._upstream or answer.headers.get("content-type", "") == PROBLEM
        return spoken and answer.status in FUTILE

    def _try_again(self, entry: Entry, reason: str, detail: str, retry_after: str | None) -> None:
        self._failures += 1
        self._metrics.failed(reason, again=True)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 20), LONGEST_PAUSE_SECONDS)
        pause = max(pause, min(_seconds_of(retry_after), LONGEST_RETRY_AFTER_SECONDS))
        pause *= 1 + 0.5 * random()  # noqa: S311 - spreads retries, guards nothing
        self._outbox.again(entry, pause)
        log.warning(
            "event not delivered", extra={**_facts(entry), "reason": reason, "detail": detail, "again_in": pause}
        )

    async def _post(self, url: str, body: bytes) -> _Answer:
        """Send a body with the identity of the moment; a client that was replaced meanwhile finishes its requests.

        Raises TimeoutError where the answer takes too long as a whole: each of its bytes may have come in time.
        """
        client = self._client
        self._under_way[client] += 1
        headers = self._identity.headers(url, body) | {"Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout(WHOLE_ANSWER_SECONDS),
                client.stream("POST", url, content=body, headers=headers) as response,
            ):
                return _Answer(response.status_code, response.headers, await _beginning(response))
        finally:
            self._under_way[client] -= 1
            await self._close_if_done(client)

    async def _follow_identity(self) -> None:
        if self._identity.check():
            former, self._client = self._client, self._new_client()
            await self._close_if_done(former)

    async def _close_if_done(self, client: httpx.AsyncClient) -> None:
        if client is not self._client and not self._under_way[client]:
            del self._under_way[client]
            await client.aclose()

    def _new_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=self._identity.ssl_context,
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            limits=httpx.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT, keepalive_expiry=300),
        )

    def _body(self, entry: Entry) -> bytes:
        change = entry.change
        event: dict[str, object] = {
            "watched": {"Namespace": change.namespace, "Name": change.name},
            "watchedGvk": {"group": change.group, "version": change.version, "kind": change.kind},
        }
        if self._upstream and change.operation == RESYNC:
            event = DEFAULT_KYMA  # upstream's listener looks at the Kyma for every event
        event = event | {
            "id": entry.event_id,
            "operation": change.operation,
            "uid": change.uid,
            "resourceVersion": change.resource_version,
            "generation": change.generation,
            "epoch": self._epoch,
            "sequence": entry.sequence,
            "observedAt": datetime.fromtimestamp(entry.observed_at, UTC).isoformat().replace("+00:00", "Z"),
            "traceparent": entry.traceparent,
        }
        if change.operation == HEARTBEAT:
            event["counters"] = {"pending": len(self._outbox) - 1, "overflows": self._outbox.overflows}
        return msgspec.json.encode(event)


def _seconds_of(retry_after: str | None) -> float:
    """Return how long to wait by a Retry-After field (RFC 9110): seconds, or a date; 0 where it says neither."""
    if retry_after is None:
        return 0.0
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):  # what texts lead to that are no date, or have no zone
        return 0.0


async def _beginning(response: httpx.Response) -> str:
    """Return the beginning of an answer. One that was not read to its end takes its connection with it."""
    read = bytearray()
    async for some in response.aiter_raw():
        read += some[:LARGEST_ANSWER]
        if len(read) > LARGEST_ANSWER:
            break
    return read[:500].decode(errors="replace")


def _facts(entry: Entry) -> dict[str, object]:
    change = entry.change
    return {
        "event_id": entry.event_id,
        "traceparent": entry.traceparent,
        "kind": change.kind,
        "namespace": change.namespace,
        "object_name": change.name,
        "operation": change.operation,
    }
