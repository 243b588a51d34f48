"""The refusals of the event endpoint: the answer as application/problem+json (RFC 9457), and the reason to count."""

from enum import StrEnum

import msgspec
from starlette.responses import Response


class Reason(StrEnum):
    """Why an event was refused; the label of the metric."""

    NOT_READY = "not_ready"
    UNKNOWN_PATH = "unknown_path"
    UNKNOWN_MANAGER = "unknown_manager"
    METHOD = "method"
    MEDIA_TYPE = "media_type"
    TOO_LARGE = "too_large"
    DUPLICATE_FIELD = "duplicate_field"
    INCOMPLETE = "incomplete"
    NO_TLS_PEER = "no_tls_peer"
    UNSIGNED = "unsigned"
    UNTRUSTED_PROXY = "untrusted_proxy"
    PROXY_HEADER = "proxy_header"
    SIGNATURE_INPUT = "signature_input"
    TIME_WINDOW = "time_window"
    CERTIFICATE = "certificate"
    TLS_PEER = "tls_peer"
    KEY_ID = "key_id"
    SIGNATURE = "signature"
    NO_RUNTIME = "no_runtime"
    REVOKED = "revoked"
    REPLAYED = "replayed"
    RATE = "rate"
    MALFORMED = "malformed"
    UNKNOWN_RUNTIME = "unknown_runtime"
    NOT_HANDED_OVER = "not_handed_over"


class Refused(Exception):
    """A refused event: status code, reason, title and detail."""

    def __init__(self, status: int, reason: Reason, title: str, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.title = title
        self.detail = detail
        self.retry_after = retry_after

    def response(self) -> Response:
        """Return the answer to the sender."""
        problem = {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else {}
        if self.status == 503:
            headers["Connection"] = "close"  # another connection may reach another replica
        return Response(
            msgspec.json.encode(problem), self.status, headers=headers, media_type="application/problem+json"
        )


def not_verified(reason: Reason, detail: str) -> Refused:
    """Return the refusal of a sender that could not be verified."""
    return Refused(401, reason, "Not verified", detail)
