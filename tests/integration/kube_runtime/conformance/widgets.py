"""A kind with one of everything that a schema can ask of the server."""

from typing import Any

from tests.kinds import OPEN, crd_of

GROUP = "conformance.example.com"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/{{ns}}/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TEXT = {"type": "string"}
_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "nested": {"type": "object", "properties": {"a": _TEXT, "b": {"type": "string", "default": "bee"}}},
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _TEXT, "count": {"type": "integer", "default": 1}, "note": _TEXT},
            },
        },
        "plain": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT, "b": _TEXT}},
        "options": {"type": "object", "additionalProperties": _TEXT},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "free": OPEN,
    },
}
_CONDITIONS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {"type": "object", "required": ["type"], "properties": {"type": _TEXT, "status": _TEXT}},
}
_STATUS = {"type": "object", "properties": {"phase": _TEXT, "conditions": _CONDITIONS}}


def definition(plural: str = "widgets", kind: str = "Widget", scope: str = "Namespaced") -> dict[str, Any]:
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC, "status": _STATUS}}
    return crd_of(GROUP, kind, plural=plural, scope=scope, schema=schema, has_status=True)


def widget(called: str | None, **spec: Any) -> dict[str, Any]:
    metadata = {} if called is None else {"name": called}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def config_map(called: str, metadata: dict[str, Any] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": called, **(metadata or {})}, "data": data}
