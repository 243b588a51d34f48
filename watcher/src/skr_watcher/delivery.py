"""Sends events to the control plane: signed, over mutual TLS on kept connections, retried until accepted.

Admission runs in the same event loop, so an iteration of the loop prepares one event at most, whatever is pending.
"""

import asyncio
import base64
import logging
import secrets
import ssl
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import random
from typing import TYPE_CHECKING

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
from skr_watcher.client import EventClient, RequestFailed, Response
from skr_watcher.logs import LogRateLimit
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Entry, Outbox
from skr_watcher.rate_limit import WatcherRateLimit
from skr_watcher.settings import OURS, UPSTREAM, SkrWatcherSettings

if TYPE_CHECKING:
    from kyma_diagnostics.spans import ChangeTracer

log = logging.getLogger("skr_watcher.delivery")

SIGNATURE_SECONDS = 120
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 15.0
MAX_TEXT = 500
IN_FLIGHT = 8
DEFAULT_KYMA: dict[str, object] = {
    "watched": {"Namespace": "kyma-system", "Name": "default"},
    "watchedGvk": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
}
MAX_RETRY_AFTER_SECONDS = 300.0
# The control plane accepts this rate from one cluster. A change that waits is merged with newer ones of its object.
EVENTS_PER_SECOND = 40.0
BURST = 20
# Statuses for which a retry is useless. 401 and 403 are not among them: certificates are renewed, clocks corrected and
# Kymas created later. Neither is 409: each attempt has a new nonce, so a gateway must have sent one of them twice.
NOT_RETRIED = frozenset({400, 404, 405, 413, 415})
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class _Signer:
    key: SigningKey = field(repr=False)
    keyid: str
    client_cert: str


class Identity:
    """The certificate with which events are sent and signed. It is reloaded when its files change."""

    def __init__(self, settings: SkrWatcherSettings) -> None:
        self._files = (settings.tls_cert, settings.tls_key)
        self._signs = settings.kcp_listener == OURS
        self._context = ReloadingClientContext(settings.tls_cert, settings.tls_key, settings.ca_cert)
        self._complete = True
        self._signer = self._load()
        self.headers("", b"")  # the first signature takes milliseconds, which admission should not wait for

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context of new connections."""
        return self._context.ssl_context

    def check(self) -> bool:
        """Reload the files if they have changed; return whether they were."""
        changed = False
        while self._context.check():
            changed, self._complete = True, False
        if not self._complete:
            try:
                self._signer, self._complete = self._load(), True
            except (OSError, ValueError) as error:  # the files are being written
                log.warning("cannot load the certificate files yet", extra={"detail": str(error)})
        return changed

    def headers(self, url: str, body: bytes) -> dict[str, str]:
        """Return the header fields of an event: signed, or for a listener that relies on mutual TLS alone, unsigned."""
        if self._signer is None:
            return {"Content-Type": CONTENT_TYPE}
        signer, now = self._signer, int(time.time())
        parameters = SignatureParameters(
            now, now + SIGNATURE_SECONDS, secrets.token_urlsafe(16), signer.keyid, algorithm_of(signer.key)
        )
        return {**sign(url, body, signer.key, parameters), "Client-Cert": signer.client_cert}

    def _load(self) -> "_Signer | None":
        """Load the signing key; None if events are not signed. Raises OSError or ValueError for unusable files."""
        cert_file, key_file = self._files
        if not self._signs:
            return None
        certificate = x509.load_pem_x509_certificate(cert_file.read_bytes())
        if isinstance(certificate.public_key(), rsa.RSAPublicKey):
            log.warning("events are not signed: RSA keys are not supported")
            return None
        key = load_signing_key(key_file.read_bytes())
        if key.public_key() != certificate.public_key():
            raise ValueError("the private key does not match the certificate")
        der = certificate.public_bytes(serialization.Encoding.DER)
        return _Signer(key, describe_certificate(certificate).sha256, f":{base64.b64encode(der).decode()}:")


class Delivery:
    """Takes entries from the outbox and sends them to the control plane."""

    def __init__(
        self,
        settings: SkrWatcherSettings,
        outbox: Outbox,
        identity: Identity,
        metrics: Metrics,
        tracer: "ChangeTracer | None" = None,
    ) -> None:
        self._tracer = tracer
        self._outbox = outbox
        self._identity = identity
        self._metrics = metrics
        self._origin = f"https://{settings.kcp_address}"
        self._contract = settings.kcp_contract
        self._rate_limit = WatcherRateLimit(EVENTS_PER_SECOND, BURST)
        self._log_rate_limit = LogRateLimit()
        self._epoch = secrets.token_hex(8)
        self._failures, self._failed_at = 0, 0.0
        self._client = EventClient(settings.kcp_address)
        self._preparing = asyncio.Lock()
        self._upstream = settings.kcp_listener == UPSTREAM
        self._accepted_at = time.monotonic()

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the control plane last accepted an event, or since the start."""
        return time.monotonic() - self._accepted_at

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(IN_FLIGHT):
                    tasks.create_task(self._work(), name=f"delivery {number}")
        finally:
            self._client.close()

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._rate_limit.take(time.monotonic()))  # admission needs the CPU more than delivery
            entry = await self._outbox.take()
            try:
                with self._traced(entry):
                    await self._deliver(entry)
            except asyncio.CancelledError:
                self._outbox.retry(entry, 0)
                raise

    def _traced(self, entry: Entry) -> AbstractContextManager[None]:
        """Measure an attempt to deliver a change."""
        if self._tracer is None or not entry.change.names_object:
            return nullcontext()
        return self._tracer.segment("delivery", entry.traceparent, attributes=entry.change.facts)

    async def _deliver(self, entry: Entry) -> None:
        path = f"/{self._contract}/{entry.change.manager}/event"
        async with self._preparing:
            self._identity.check()
            body = self._body(entry)
            fields, tls = self._identity.headers(self._origin + path, body), self._identity.ssl_context
            await asyncio.sleep(0)  # so that the next event is prepared in another iteration
        started = time.perf_counter()
        try:
            answer = await self._client.post(path, fields, body, tls)
        except RequestFailed as error:
            self._retry(entry, started, type(error).__name__, str(error), None)
            return
        milliseconds = round((time.perf_counter() - started) * 1000, 2)
        if answer.status == 200:
            self._failures, self._accepted_at = 0, time.monotonic()
            self._metrics.delivered()
            self._outbox.done(entry)
            if self._log_rate_limit.grants():
                extra = {**_facts(entry), "milliseconds": milliseconds, "status": 200}
                log.log(entry.change.log_level, "event delivered", extra=extra)
        elif self._is_final(answer):
            self._failed(str(answer.status))
            self._metrics.failed(str(answer.status), retried=False)
            self._outbox.done(entry)
            log.error("event refused", extra={**_facts(entry), "status": answer.status, "answer": _text(answer)})
        else:
            self._retry(entry, started, str(answer.status), _text(answer), answer.fields.get("retry-after"))

    def _is_final(self, answer: Response) -> bool:
        """Return whether the control plane itself refused for good; a gateway may answer the same during an outage."""
        by_control_plane = self._upstream or answer.fields.get("content-type", "") == PROBLEM
        return by_control_plane and answer.status in NOT_RETRIED

    def _retry(self, entry: Entry, started: float, reason: str, detail: str, retry_after: str | None) -> None:
        if started >= self._failed_at:  # attempts that were under way together failed once
            self._failures, self._failed_at = self._failures + 1, time.perf_counter()
        self._failed(reason)
        self._metrics.failed(reason, retried=True)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 20), MAX_PAUSE_SECONDS)
        pause = max(pause, min(_seconds_of(retry_after), MAX_RETRY_AFTER_SECONDS))
        pause *= 1 + 0.5 * random()  # noqa: S311 - spreads retries, no security
        self._outbox.retry(entry, pause)
        log.warning(
            "event not delivered",
            extra={**_facts(entry), "reason": reason, "detail": detail, "retry_after_seconds": pause},
        )

    def _failed(self, reason: str) -> None:
        if self._tracer is not None:
            self._tracer.failed(reason)

    def _body(self, entry: Entry) -> bytes:
        change = entry.change
        event: dict[str, object] = {
            "watched": {"Namespace": change.namespace, "Name": change.name},
            "watchedGvk": {"group": change.group, "version": change.version, "kind": change.kind},
        }
        if self._upstream and change.operation == RESYNC:
            event = DEFAULT_KYMA  # upstream's listener reconciles the Kyma for every event
        event = event | {
            "id": entry.event_id,
            "operation": change.operation,
            "uid": change.uid,
            "resourceVersion": change.resource_version,
            "generation": change.generation,
            "epoch": self._epoch,
            "sequence": entry.sequence,
            "observedAt": datetime.fromtimestamp(entry.observed_at, UTC).isoformat().replace("+00:00", "Z"),
            "traceparent": (self._tracer.traceparent() if self._tracer is not None else "") or entry.traceparent,
        }
        if change.challenge:
            event["challenge"] = change.challenge
        if change.operation == HEARTBEAT:
            event["counters"] = {"pending": len(self._outbox) - 1, "overflows": self._outbox.overflows}
        return msgspec.json.encode(event)


def _seconds_of(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After field (RFC 9110), which has seconds or a date; 0 for anything else."""
    if retry_after is None:
        return 0.0
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):  # not a date, or one without a time zone
        return 0.0


def _text(answer: Response) -> str:
    return answer.body[:MAX_TEXT].decode(errors="replace")


def _facts(entry: Entry) -> dict[str, object]:
    return {"event_id": entry.event_id, "traceparent": entry.traceparent, **entry.change.facts}
