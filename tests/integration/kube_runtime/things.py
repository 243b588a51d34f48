"""A custom resource for the tests: Thing, with a spec, a status, and nothing in particular to do."""

from typing import Any

from kube_runtime import Resource, dump_yaml
from tests.kinds import OPEN, crd_of

GROUP = "things.example.com"
THINGS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, "v1", "Thing", "things", namespaced=True)


def definition(plural: str = "things", kind: str = "Thing") -> dict[str, Any]:
    """Return the CustomResourceDefinition of Things, or of another kind just like it."""
    schema = {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}
    return crd_of(GROUP, kind, plural=plural, schema=schema, has_status=True)


def thing(name: str, namespace: str | None = None, kind: str = "Thing", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def as_text(*documents: dict[str, Any]) -> str:
    return "---\n".join(dump_yaml(document) for document in documents)
