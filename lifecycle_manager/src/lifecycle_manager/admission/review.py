"""An AdmissionReview (admission.k8s.io/v1): what the API server asks before it stores an object, and the answer."""

from collections.abc import Sequence

import msgspec

NULL = msgspec.Raw(b"null")
INVALID = 422


class ReviewMalformed(ValueError):
    """The body is no AdmissionReview."""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One object that is about to be stored, undecoded."""

    uid: str
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = NULL


class _Review(msgspec.Struct, frozen=True):
    request: AdmissionRequest


_decoder = msgspec.json.Decoder(_Review)


def decode_review(body: bytes) -> AdmissionRequest:
    """Return what the API server asks. Raises ReviewMalformed."""
    try:
        return _decoder.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewMalformed(f"the body is no AdmissionReview: {error}") from None


def answer(uid: str, objection: str | None, warnings: Sequence[str] = ()) -> bytes:
    """Return the answer: allowed, or refused with what is wrong; warnings are shown to whoever writes."""
    response: dict[str, object] = {"uid": uid, "allowed": objection is None}
    if warnings:
        response["warnings"] = list(warnings)
    if objection is not None:
        response["status"] = {"code": INVALID, "reason": "Invalid", "message": objection}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
