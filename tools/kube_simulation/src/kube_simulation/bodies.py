"""What the body of a request says: an object, in JSON."""

from typing import Any

import msgspec

from kube_simulation.kinds import Kind
from kube_simulation.refusals import bad_request
from kube_simulation.requests import ApiRequest

Document = dict[str, Any]


def json_object(body: bytes) -> Document:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("the object provided is unrecognized: it is no object")
    return document


def decoded(request: ApiRequest, kind: Kind) -> Document:
    document = json_object(request.body)
    document.setdefault("apiVersion", kind.api_version)
    document.setdefault("kind", kind.kind)
    return _with_metadata(document)


def applied_document(request: ApiRequest) -> Document:
    return _with_metadata(json_object(request.body))


def _with_metadata(document: Document) -> Document:
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise bad_request("metadata is no object")
    return {**document, "metadata": metadata or {}}
