"""An AdmissionReview (admission.k8s.io/v1): what the API server asks, and the one answer it ever gets."""

import re

import msgspec

NULL = msgspec.Raw(b"null")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a JSON text that nobody should send leads to."""


class ReviewMalformed(ValueError):
    """The body is no AdmissionReview."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The kind of the object, in the version that was asked for by the webhook's rule."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One change before it is stored. Both objects stay undecoded until somebody asks."""

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
    """Return what the API server asks. Raises ReviewMalformed."""
    try:
        return _decoder.decode(body).request
    except UNREADABLE as error:
        raise ReviewMalformed(f"the body is no AdmissionReview: {error}") from None


def uid_in(head: bytes | bytearray) -> str | None:
    """Return the uid of the review that begins so. An API server writes it before anything of any length."""
    found = _UID.match(head)
    return found[1].decode("ascii") if found else None


def allowed(uid: str) -> bytes:
    """Return the answer that allows a change."""
    return _BEFORE_UID + msgspec.json.encode(uid) + _AFTER_UID
