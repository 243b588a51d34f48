"""The refusals of the event endpoint: the answer as application/problem+json (RFC 9457), and the reason to count."""

from collections.abc import Callable
from enum import StrEnum

import msgspec
from prometheus_client import CollectorRegistry, Counter
from starlette.responses import Response


class Reason(StrEnum):
    """Why an event was refused; the value is the label of the metric. Each has a status code and a heading."""

    status: int
    heading: str

    def __new__(cls, value: str, status: int, heading: str) -> "Reason":
        """Return a member."""
        member = str.__new__(cls, value)
        member._value_, member.status, member.heading = value, status, heading
        return member

    NOT_READY = "not_ready", 503, "Not ready"
    UNKNOWN_PATH = "unknown_path", 404, "Not found"
    UNKNOWN_MANAGER = "unknown_manager", 404, "Unknown manager"
    METHOD = "method", 405, "Method not allowed"
    MEDIA_TYPE = "media_type", 415, "Unsupported media type"
    TOO_LARGE = "too_large", 413, "Too large"
    DUPLICATE_FIELD = "duplicate_field", 400, "Malformed request"
    INCOMPLETE = "incomplete", 400, "Incomplete"
    NO_TLS_PEER = "no_tls_peer", 401, "Not verified"
    UNSIGNED = "unsigned", 401, "Not verified"
    UNTRUSTED_PROXY = "untrusted_proxy", 401, "Not verified"
    PROXY_HEADER = "proxy_header", 401, "Not verified"
    SIGNATURE_INPUT = "signature_input", 401, "Not verified"
    TIME_WINDOW = "time_window", 401, "Not verified"
    CERTIFICATE = "certificate", 401, "Not verified"
    TLS_PEER = "tls_peer", 401, "Not verified"
    KEY_ID = "key_id", 401, "Not verified"
    SIGNATURE = "signature", 401, "Not verified"
    NO_RUNTIME = "no_runtime", 401, "Not verified"
    REVOKED = "revoked", 403, "Revoked"
    REPLAYED = "replayed", 409, "Replayed"
    RATE = "rate", 429, "Too many events"
    MALFORMED = "malformed", 400, "Malformed event"
    UNKNOWN_RUNTIME = "unknown_runtime", 403, "Unknown runtime"
    NOT_HANDED_OVER = "not_handed_over", 503, "Not taken"


class EventRefused(Exception):
    """A refused event: why, in detail, and after how many seconds to try again where that helps."""

    def __init__(self, reason: Reason, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after

    def response(self) -> Response:
        status = self.reason.status
        problem = {"type": "about:blank", "title": self.reason.heading, "status": status, "detail": self.detail}
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else {}
        if status == 503:
            headers["Connection"] = "close"  # another connection may reach another replica
        return Response(msgspec.json.encode(problem), status, headers=headers, media_type="application/problem+json")


def refusal_counter(registry: CollectorRegistry) -> Callable[[Reason], None]:
    """Return a function that counts a refused event by its reason; each reason has a series from the start."""
    counter = Counter("lifecycle_mgr_event_refused", "Events that were refused.", ["reason"], registry=registry)
    series = {reason: counter.labels(reason.value) for reason in Reason}
    return lambda reason: series[reason].inc()
