"""AdmissionReviews (admission.k8s.io/v1), as an API server sends them, and the answers."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from kube_runtime.client.nesting import cut_json

INVALID = 422
MAX_ERROR_LENGTH = 8 * 1024
MAX_REVIEW_BYTES = 8 * 1024 * 1024
"""Two objects of the maximum size of etcd, escaped."""
MAX_BYTES, MAX_BYTES_PER_ADDRESS = 4 * MAX_REVIEW_BYTES, 2 * MAX_REVIEW_BYTES
"""Of all bodies that are read or validated at once, and of those that come from one address."""
NULL = msgspec.Raw(b"null")
Short = Annotated[str, msgspec.Meta(max_length=253)]
"""It is logged; no name in Kubernetes is longer."""


class ReviewedObject(msgspec.Struct, frozen=True, rename="camel"):
    """One object to be stored or deleted, undecoded."""

    uid: Short
    name: Short = ""
    namespace: Short = ""
    operation: Short = ""
    object: msgspec.Raw = NULL
    old_object: msgspec.Raw = NULL

    @property
    def is_deletion(self) -> bool:
        """Whether the object is to be deleted; then there is only the old one."""
        return self.operation == "DELETE"


class _Review(msgspec.Struct, frozen=True):
    request: ReviewedObject


_decoder = msgspec.json.Decoder(_Review)


def review_of(body: bytes) -> ReviewedObject:
    """Return the request of a review, whatever is in its objects.

    Raises ValueError, IndexError or RecursionError for what is none.
    """
    try:
        return _decoder.decode(body).request
    except RecursionError:
        text, parts = cut_json(body, 2)  # the review, and its request
        request = _decoder.decode(text).request
        new, old = (
            NULL if each == NULL else msgspec.Raw(parts[int(each)]) for each in (request.object, request.old_object)
        )
        return msgspec.structs.replace(request, object=new, old_object=old)


def answer(uid: str, error: str | None, warnings: Sequence[str] = ()) -> bytes:
    """Return the response: allowed, or refused with an error; clients show the warnings."""
    response: dict[str, object] = {"uid": uid, "allowed": error is None}
    if warnings:
        response["warnings"] = list(warnings)
    if error is not None:
        response["status"] = {"code": INVALID, "reason": "Invalid", "message": error}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
