"""An AdmissionReview (admission.k8s.io/v1): the request of the API server, and the response."""

from collections.abc import Sequence

import msgspec

NULL = msgspec.Raw(b"null")
INVALID = 422


class ReviewMalformed(ValueError):
    """The body is not an AdmissionReview."""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One object to be stored, undecoded."""

    uid: str
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = NULL


class _Review(msgspec.Struct, frozen=True):
    request: AdmissionRequest


_decoder = msgspec.json.Decoder(_Review)


def decode_review(body: bytes) -> AdmissionRequest:
    """Return the request of the API server. Raises ReviewMalformed."""
    try:
        return _decoder.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewMalformed(f"invalid AdmissionReview: {error}") from None


def answer(uid: str, error: str | None, warnings: Sequence[str] = ()) -> bytes:
    """Return the response: allowed, or refused with an error; clients show the warnings."""
    response: dict[str, object] = {"uid": uid, "allowed": error is None}
    if warnings:
        response["warnings"] = list(warnings)
    if error is not None:
        response["status"] = {"code": INVALID, "reason": "Invalid", "message": error}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
