"""AdmissionReview (admission.k8s.io/v1): the request of the API server, and the response, which always allows."""

import re

import msgspec

NULL = msgspec.Raw(b"null")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that invalid JSON can raise."""


class ReviewMalformed(ValueError):
    """The body is not a valid AdmissionReview."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The kind of the object, in the version of the webhook's rule."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One change before it is stored. Both objects are decoded on demand."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    name: str = ""
    namespace: str = ""
    operation: str = ""
    sub_resource: str = ""
    dry_run: bool = False
    object: msgspec.Raw = NULL
    old_object: msgspec.Raw = NULL


class _Review(msgspec.Struct, frozen=True):
    request: AdmissionRequest


_UID = re.compile(rb'[^\[\]]{0,200}?"request"\s{0,9}:\s{0,9}\{\s{0,9}"uid"\s{0,9}:\s{0,9}"([0-9A-Za-z-]{1,64})"')
_BEFORE_UID = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":'
_AFTER_UID = b',"allowed":true}}'
_decoder = msgspec.json.Decoder(_Review)


def decode_review(body: bytes | bytearray) -> AdmissionRequest:
    """Decode a review. Raises ReviewMalformed."""
    try:
        return _decoder.decode(body).request
    except UNREADABLE as error:
        raise ReviewMalformed(f"invalid AdmissionReview: {error}") from None


def uid_in(head: bytes | bytearray) -> str | None:
    """Return the uid from the first bytes of a review. API servers write it before any long field."""
    found = _UID.match(head)
    return found[1].decode("ascii") if found else None


def allowed(uid: str) -> bytes:
    """Return the response that allows a change."""
    return _BEFORE_UID + msgspec.json.encode(uid) + _AFTER_UID
