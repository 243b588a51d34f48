"""The OpenAPI 3.1 document of the event endpoint, which `make charts` writes to docs/events.openapi.json.

Written by hand, because the endpoint reads the body as bytes, which FastAPI can't describe.
"""

from inspect import cleandoc
from typing import Any

import msgspec

from lifecycle_manager.contract.watchers import EVENT_CONTRACT
from lifecycle_manager_api import WatchEvent

PROBLEM = "application/problem+json"
ANSWERS = {
    400: "malformed",
    401: "certificate or signature missing or not verified",
    403: "no Kyma has the runtime id of the certificate, or the certificate is revoked",
    404: "unknown manager",
    409: "replayed nonce",
    413: "too large",
    415: "not JSON",
    429: "too many events of this runtime",
    503: "starting or stopping",
}
WAITS = frozenset({429, 503})
SIGNED = {
    "Content-Digest": "RFC 9530, sha-256",
    "Signature-Input": "RFC 9421, tag kyma-watch-event",
    "Signature": "RFC 9421",
    "Client-Cert": "RFC 9440: the certificate of the signing key",
}


def openapi_document() -> dict[str, Any]:
    """Return the document."""
    (reference,), components = msgspec.json.schema_components([WatchEvent], ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lifecycle Manager events", "version": EVENT_CONTRACT},
        "paths": {f"/{EVENT_CONTRACT}/{{manager}}/event": {"post": _operation(reference)}},
        "components": {"schemas": {name: _described(each) for name, each in components.items()} | _problem()},
    }


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose description has no indentation: Python keeps that of a docstring before 3.13."""
    return schema | {"description": cleandoc(schema["description"])} if "description" in schema else schema


def _operation(event: dict[str, Any]) -> dict[str, Any]:
    headers = [
        {"name": name, "in": "header", "required": True, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in SIGNED.items()
    ]
    manager = {"name": "manager", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "operationId": "takeEvent",
        "summary": "Take an event of a Watcher.",
        "parameters": [manager, *headers],
        "requestBody": {"required": True, "content": {"application/json": {"schema": event}}},
        "responses": {"200": {"description": "taken"}}
        | {str(status): _refusal(status, meaning) for status, meaning in ANSWERS.items()},
    }


def _refusal(status: int, meaning: str) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": meaning,
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in WAITS:
        answer["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    return answer


def _problem() -> dict[str, Any]:
    fields = {"type": "string", "title": "string", "status": "integer", "detail": "string"}
    return {"Problem": {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}}
