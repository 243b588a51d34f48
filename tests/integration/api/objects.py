"""Valid objects for tests: the documented examples, and one of each kind with every field."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kube_runtime import Resource, parse_objects
from lifecycle_manager_api.crds import KINDS

RESOURCES: dict[str, Resource[dict[str, Any]]] = {
    kind.KIND: Resource.dynamic(kind.GROUP, kind.VERSION, kind.KIND, kind.PLURAL, namespaced=True) for kind in KINDS
}
EXAMPLES = {path.stem: path for path in sorted(Path("docs/examples").glob("*.yaml"))}
COMPLETE = {path.stem: path for path in sorted((Path(__file__).parent / "complete").glob("*.yaml"))}


def read(path: Path) -> dict[str, Any]:
    (only,) = parse_objects(path.read_text())
    return dict(only.document)


def in_namespace(document: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def with_value(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the object with another value at a path such as `spec.modules.0.name`; None removes it."""
    changed = copy.deepcopy(dict(document))
    *parents, last = path.split(".")
    at: Any = changed
    for step in parents:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    if value is None:
        del at[last]
    elif isinstance(at, list):
        at[int(last) :] = [value]
    else:
        at[last] = value
    return changed
