"""An AdmissionReview (admission.k8s.io/v1): what the API server asks, and the one answer it ever gets."""

import msgspec

NULL = msgspec.Raw(b"null")


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


_decoder = msgspec.json.Decoder(_Review)


def decode_review(body: bytes) -> AdmissionRequest:
    """Return what the API server asks. Raises ReviewMalformed."""
    try:
        return _decoder.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewMalformed(f"the body is no AdmissionReview: {error}") from None


def allowed(uid: str) -> bytes:
    """Return the answer that allows a change."""
    response = {"uid": uid, "allowed": True}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
