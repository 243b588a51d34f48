"""AdmissionReviews (admission.k8s.io/v1), as an API server sends them, and the answers."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from kube_runtime.client.nesting import cut_json

INVALID = 422
MAX_ERROR_LENGTH = 8 * 1024
MAX_REVIEW_BYTES = 8 * 1024 * 1024
"""Two objects of the maximum size of etcd, escaped."""
MAX_BYTES, MAX_BYTES_PER_ADDRESS = 4 * MAX_REVIEW_BYTES, 2 * MAX_REVIEW_BYTES
"""Of all bodies that are read or validated at once, and of those that come from one address."""
NULL = msgspec.Raw(b"null")
T = TypeVar("T")
Short = Annotated[str, msgspec.Meta(max_length=253)]
"""It is logged; no name in Kubernetes is longer."""


class UserInfo(msgspec.Struct, frozen=True):
    """Who sent a request."""

    username: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: Short
    name: Short = ""
    namespace: Short = ""
    operation: Short = ""
    object: msgspec.Raw = NULL
    old_object: msgspec.Raw = NULL
    dry_run: bool = False


class ReviewedObject(_Request, frozen=True, rename="camel"):
    """One object to be stored or deleted, undecoded."""

    user_info: UserInfo = UserInfo()

    @property
    def is_deletion(self) -> bool:
        """Whether the object is to be deleted; then there is only the old one."""
        return self.operation == "DELETE"


class _CutRequest(_Request, frozen=True, rename="camel"):
    """The same where numbers stand for objects."""

    user_info: msgspec.Raw = NULL


class _Review(msgspec.Struct, Generic[T], frozen=True):
    request: T


_decoder = msgspec.json.Decoder(_Review[ReviewedObject])
_cut_decoder = msgspec.json.Decoder(_Review[_CutRequest])
_user_decoder = msgspec.json.Decoder(UserInfo | None)


def review_of(body: bytes) -> ReviewedObject:
    """Return the request of a review, whatever is in its objects.

    Raises ValueError, IndexError or RecursionError for what is none.
    """
    try:
        return _decoder.decode(body).request
    except RecursionError:
        text, parts = cut_json(body, 2)  # the review, and its request
        request = _cut_decoder.decode(text).request
        new, old, user = (
            NULL if each == NULL else msgspec.Raw(parts[int(each)])
            for each in (request.object, request.old_object, request.user_info)
        )
        fields = msgspec.structs.asdict(request) | {"object": new, "old_object": old}
        return ReviewedObject(**fields | {"user_info": _user_decoder.decode(user) or UserInfo()})


def answer(
    uid: str, error: str | None, warnings: Sequence[str] = (), *, patch: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Return the response: allowed, perhaps with a JSON patch, or refused with an error; clients show the warnings."""
    response: dict[str, object] = {"uid": uid, "allowed": error is None}
    if warnings:
        response["warnings"] = list(warnings)
    if error is not None:
        response["status"] = {"code": INVALID, "reason": "Invalid", "message": error}
    elif patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def patch_between(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterable[Mapping[str, Any]]:
    """Yield the JSON patch from one object to another; lists are replaced as a whole."""
    for name in (*before, *(name for name in after if name not in before)):
        place = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        old, new = before.get(name), after.get(name)
        if name not in after:
            yield {"op": "remove", "path": place}
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from patch_between(old, new, place)
        elif name not in before or old != new:
            yield {"op": "add", "path": place, "value": new}  # which replaces what is there
