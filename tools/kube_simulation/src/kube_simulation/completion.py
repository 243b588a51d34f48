"""What a server makes of a document: it fills in, leaves out, and counts what has changed."""

import base64
from typing import Any

from kube_simulation.builtin import NAMESPACE
from kube_simulation.kinds import Kind
from kube_simulation.requests import ApiRequest
from kube_simulation.validation import pruned, with_defaults

Document = dict[str, Any]
_EMPTY_GOES = ("labels", "annotations", "finalizers", "ownerReferences", "namespace", "generateName", "selfLink")


def scoped(document: Document, kind: Kind, request: ApiRequest) -> Document:
    """Return the part of an applied document that the request may change."""
    if request.subresource == "status":
        return {"metadata": {}, **({"status": document["status"]} if "status" in document else {})}
    return without(document, "status") if kind.status else document


def completed(document: Document, kind: Kind) -> Document:
    """Return an object without what its kind does not know, with its defaults, and without what is empty."""
    if kind.custom:
        document = with_defaults(pruned(document, kind.shape), kind.shape)
    else:
        document = with_defaults(document, kind.shape)
        document = {key: value for key, value in document.items() if not _goes(key, value, kind)}
        if kind.plural == "secrets" and "stringData" in document:
            document = _with_encoded_data(document)
        if kind is NAMESPACE:
            document = _namespace_completed(document)
    metadata = document["metadata"]
    if any(key in metadata and not metadata[key] for key in _EMPTY_GOES):
        document["metadata"] = {key: value for key, value in metadata.items() if value or key not in _EMPTY_GOES}
    return document


def _goes(field: str, value: Any, kind: Kind) -> bool:
    """Tell whether a built-in kind leaves out a field that has nothing in it."""
    if value is None:
        return True
    declared = kind.shape.fields.get(field)
    return value in ({}, []) and not (declared is not None and declared.always_there)


def _namespace_completed(document: Document) -> Document:
    metadata = document["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}
    return {**document, "metadata": {**metadata, "labels": labels}}


def _with_encoded_data(secret: Document) -> Document:
    encoded = {
        key: base64.b64encode(value.encode()).decode() for key, value in (secret.get("stringData") or {}).items()
    }
    return {**without(secret, "stringData"), "data": {**(secret.get("data") or {}), **encoded}}


def without(document: Document, field: str) -> Document:
    return {key: value for key, value in document.items() if key != field}


def counts_as_a_generation(before: Document, after: Document, kind: Kind) -> bool:
    """Tell whether a change is one of those that metadata.generation counts."""
    left_out = {"metadata", "apiVersion", "status"} if kind.status else {"metadata", "apiVersion"}
    return {key: value for key, value in before.items() if key not in left_out} != {
        key: value for key, value in after.items() if key not in left_out
    }
