"""Converting an error response of the API server into its exception.

Messages are shortened and stripped of control characters, as they end up in logs and conditions and the server may not
be trusted.

What is said with 404 decides about deletions, so only the answers of an API server count: a Status that names an object
says that it does not exist; a Status that names none, or the text of a Go server, says that nothing is served at a
path. Any other page, as gateways have in front of a server that is away, says nothing. Nor does the code by which an
admission webhook or policy denies a request, which is any that its author chose.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from kube_runtime.client.outgrown import OF_LIVE_OBJECT
from kube_runtime.exceptions import (
    DENIED,
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    NotServed,
    RequestTooLarge,
    ResponseInvalid,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
)

MAX_MESSAGE_LENGTH = 2_000
NOT_SERVED = "the server could not find the requested resource"
"""What clients say where nothing is served."""
NOT_SERVED_TEXT = b"404 page not found"
"""What the server says itself for most of such paths."""
MAX_RETRY_SECONDS = 86_400
MAX_SHOWN_LENGTH = 200
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: RequestTooLarge,
    422: Invalid,
    429: TooManyRequests,
}
_OF_CONTENT = (
    "failed to create typed patch object",
    "failed to convert new object",
    "unable to convert unstructured",
    OF_LIVE_OBJECT,
)
"""How messages begin by which a server refuses an apply, as 500, where the document or object does not fit a schema."""
_OF_SIZE = ("etcdserver: request is too large", "trying to send message larger than max")
"""What messages contain by which a server refuses what etcd does not store, as 500."""
_CONVERSION = "conversion webhook for "
"""The webhook of one CRD fails: no reason to wait with other requests, as the server asks its clients to (429)."""
_REASONS = {404: "NotFound", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


class _Status(msgspec.Struct):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


_DECODER = msgspec.json.Decoder(_Status)


def error_from_answer(code: int, body: bytes, retry_after: str | None = None) -> ApiError | ResponseInvalid:
    """Return the exception for an answer of 400 and above."""
    try:
        status = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = _Status(message=body[:MAX_MESSAGE_LENGTH].decode(errors="replace"))
    if code == 404 and status.kind != "Status":
        if body.strip() != NOT_SERVED_TEXT:
            shown = _printable(status.message)[:MAX_SHOWN_LENGTH] or "no text"
            return ResponseInvalid(f"404 with an answer that no API server gives; is this its address? {shown}")
        status = _Status(message=NOT_SERVED)
    return _error(code, status, _seconds(retry_after))


def error_from_status(document: bytes | msgspec.Raw) -> ApiError:
    """Return the exception for a Status document that came in a watch."""
    try:
        status = _DECODER.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = _Status(code=500, message="the watch ended with a status that can't be read")
    return _error(status.code or 500, status, None)


def _error(code: int, status: _Status, retry_after: float | None) -> ApiError:
    kind = AlreadyExists if status.reason == "AlreadyExists" else _BY_CODE.get(code)
    if kind is NotFound and not (status.details or {}).get("name"):
        kind = NotServed
    if kind is not Invalid and DENIED.search(status.message):
        kind = Forbidden
    if code == 500 and status.message.startswith(_OF_CONTENT):
        kind = Invalid
    if code == 500 and any(each in status.message for each in _OF_SIZE):
        kind = RequestTooLarge
    if code == 429 and _CONVERSION in status.message:
        kind, retry_after, status.details = ServerUnavailable, None, None
    if kind is None:
        kind = ServerUnavailable if code >= 500 else ApiError
    message = _printable(status.message) or "no reason given"
    error = kind(code, _printable(status.reason) or _REASONS.get(code, kind.__name__), message, status.details)
    if isinstance(error, TooManyRequests | ServerUnavailable):
        error.retry_after = retry_after if retry_after is not None else _seconds_in(status.details)
    return error


def _printable(text: str) -> str:
    shortened = text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}…"
    return "".join(letter if letter.isprintable() else " " for letter in shortened).strip()


def _seconds(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _seconds_in(details: dict[str, Any] | None) -> float | None:
    seconds = (details or {}).get("retryAfterSeconds")
    return float(min(seconds, MAX_RETRY_SECONDS)) if isinstance(seconds, int | float) and seconds > 0 else None
