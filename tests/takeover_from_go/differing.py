"""In which fields objects differ from the recording, kind by kind: what a way there and back leaves changed."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kube_runtime import load_yaml

Document = dict[str, Any]
OF_THE_SERVER = ("metadata.generation", "metadata.managedFields")
ELEMENT = re.compile(r"\[[^\]]*\]")


OF_MODULES = {
    "metadata.annotations.operator.kyma-project.io/managed-by-reconciler-disclaimer",
    "metadata.labels.operator.kyma-project.io/watched-by",
    "writer declarative.kyma-project.io/applier Update",
}
"""The Go version writes these again with its next apply, which a new version of the module brings."""
LEFT_CHANGED = {
    "Deployment": {
        "status.observedGeneration",
        "writer klm Update",
    },
    "Kyma": {
        "metadata.labels.kyma-project.io/broker-plan-name",
        "metadata.labels.kyma-project.io/instance-id",
        "metadata.labels.kyma-project.io/region",
        "metadata.labels.operator.kyma-project.io/beta",
        "metadata.labels.operator.kyma-project.io/internal",
        "spec.modules[].upgradeStrategy",
        "status.conditions[].lastTransitionTime",
        "status.conditions[].message",
        "status.conditions[].observedGeneration",
        "status.conditions[].reason",
        "status.conditions[].status",
        "status.conditions[].type",
        "status.lastOperation.operation",
        "status.modules[].fqdn",
        "status.modules[].manifest.metadata.generation",
        "status.modules[].message",
        "status.modules[].ocmComponentName",
        "status.modules[].resource.metadata.namespace",
        "status.modules[].version",
        "status.observedGeneration",
        "writer kyma-sync-context Update",
        "writer lifecycle-manager Update",
        "writer lifecycle-manager Update status",
        "writer lifecycle-manager-catalog Apply status",
        "writer lifecycle-manager-skr-webhook Apply status",
    },
    "Manifest": {
        "metadata.annotations.operator.kyma-project.io/fqdn",
        "metadata.annotations.operator.kyma-project.io/is-cluster-scoped",
        "metadata.labels.operator.kyma-project.io/controller-name",
        "metadata.ownerReferences[].blockOwnerDeletion",
        "status.conditions[].message",
        "status.conditions[].observedGeneration",
        "status.conditions[].reason",
        "status.conditions[].status",
        "status.lastOperation.operation",
        "status.observedGeneration",
        "writer declarative.kyma-project.io/applier Apply",
    },
    "ModuleReleaseMeta": {
        "metadata.annotations.operator.kyma-project.io/owned-by",
        "metadata.labels.operator.kyma-project.io/watched-by",
        "writer catalog-sync Update",
    },
    "ModuleTemplate": {
        "metadata.annotations.operator.kyma-project.io/owned-by",
        "metadata.labels.operator.kyma-project.io/watched-by",
        "status.conditions[].lastTransitionTime",
        "status.conditions[].message",
        "status.conditions[].observedGeneration",
        "status.conditions[].reason",
        "status.conditions[].status",
        "status.conditions[].type",
        "status.pinnedDescriptor.component",
        "status.pinnedDescriptor.digest",
        "status.pinnedDescriptor.version",
        "writer catalog-sync Update",
        "writer lifecycle-manager Apply status",
        "writer lifecycle-manager Update",
    },
    "Namespace": {
        "metadata.labels.operator.kyma-project.io/managed-by",
        "writer lifecycle-manager Apply",
    },
}
"""What a way there and back leaves changed beside that, by kind; the Go version goes on with it."""


def unexpected(found: set[str]) -> list[str]:
    """Return the fields, as differing_fields names them, that a way there and back leaves as they were."""
    return sorted(
        each
        for each in found
        if (parts := each.partition(" "))[2] not in OF_MODULES | LEFT_CHANGED.get(parts[0], set())
    )


def differing_fields(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Return the fields that differ, by kind and without the names of elements; `writer` is who wrote an object."""
    found = set()
    for file, text in before.items():
        kind = file.partition("/")[2].partition("__")[0]
        found |= {f"{kind} {each}" for each in differing_in(load_yaml(text), load_yaml(after[file]))}
    return found


def differing_in(before: Document, after: Document) -> set[str]:
    """Return the fields in which an object differs, without the names of elements; `writer` is who wrote it."""
    held, live = (dict(_fields(each)) for each in (before, after))
    return {ELEMENT.sub("[]", path) for path in held.keys() | live.keys() if held.get(path) != live.get(path)}


def _fields(document: Document) -> Iterator[tuple[str, Any]]:
    for each in document["metadata"]["managedFields"]:
        yield f"writer {each['manager']} {each['operation']} {each.get('subresource', '')}".strip(), True
    for path, value in _leaves(document, ""):
        if not path.startswith(OF_THE_SERVER):
            yield path, value


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            name = each.get("type") or each.get("name") if isinstance(each, dict) else each
            yield from _leaves(each, f"{path}[{name or number}]")
    else:
        yield path, value
