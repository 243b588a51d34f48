"""Which fields of an object go into a support archive: identity, conditions, and what was asked for.

What users and module teams write (data of modules, rendered objects, environment variables, foreign labels and
annotations) is not among them. The words of the fields that are kept go through `words`.
"""

from collections.abc import Mapping
from typing import Any

from kyma_fleet.bundle.words import Words
from lifecycle_manager_api import names

METADATA = ("generation", "creationTimestamp", "deletionTimestamp", "finalizers", "ownerReferences")
BY_SERVER = ("uid", "resourceVersion", "namespace")
"""Fields of the metadata that the API server or an administrator chose: they stay as they are."""
PREFIXES = (f"{names.GROUP}/", "kyma-project.io/", "app.kubernetes.io/")
"""Of labels and annotations."""
LEARNED = frozenset({"Kyma", "ModuleReleaseMeta", "ModuleTemplate", "Deployment", "Pod", "Lease"})
"""Kinds whose names operators choose, and module teams: words of these names are kept everywhere."""
ALL_OF_SPEC = frozenset({"ModuleReleaseMeta", "ModuleRollout", "RolloutStrategy", "ModulePolicy", "Watcher", "Lease"})
SPEC = {
    "Kyma": ("channel", "modules", "skipMaintenanceWindows"),
    "Manifest": ("version", "install", "remote", "customResourcePolicy"),
    "ModuleConfig": ("kyma", "module", "resourceRef"),
    "SyncResource": ("kyma", "module", "prune"),
    "ModuleTemplate": ("channel", "enableModuleConfig", "mandatory", "moduleName", "requiresDowntime", "version"),
    "Deployment": ("replicas", "strategy"),
}
STATUS = (
    *("state", "phase", "message", "reason", "conditions", "observedGeneration", "lastOperation", "modules"),
    *("activeChannel", "records", "release", "readyVersion", "synced", "emptiedAt", "skipMaintenanceWindows"),
    *("wave", "waves", "clusters", "updated", "failed", "failedClusters", "failuresAtHalt", "underWay"),
    *("startedAt", "completedAt", "expectedEnd", "replicas", "readyReplicas", "updatedReplicas"),
    *("availableReplicas", "unavailableReplicas", "containerStatuses", "startTime"),
)
EVENT = ("type", "reason", "note", "action", "regarding", "reportingController", "eventTime", "series")
CONTAINER = ("name", "image", "args", "ports", "resources")


def kept_of(document: Mapping[str, Any], words: Words) -> dict[str, Any]:
    """Return what is kept of an object."""
    kind = str(document.get("kind", ""))
    metadata, spec, status = (document.get(each) or {} for each in ("metadata", "spec", "status"))
    labels = _ours(metadata.get("labels"))
    if kind in LEARNED:
        words.learn(str(metadata.get("name", "")), *(map(str, labels.values()) if kind == "Kyma" else ()))
    kept = _only(metadata, METADATA) | {"name": metadata.get("name", ""), "labels": labels}
    kept["annotations"] = _ours(metadata.get("annotations"))
    asked = dict(spec) if kind in ALL_OF_SPEC else _only(spec, SPEC.get(kind, ()))
    found: dict[str, Any] = {"metadata": kept, "spec": asked, "status": _only(status, STATUS)}
    if kind == "Event":
        found |= _only(document, EVENT)
    pod = spec if kind == "Pod" else (spec.get("template") or {}).get("spec") or {}
    if kind in {"Deployment", "Pod"}:
        found["spec"]["containers"] = [_container(each) for each in pod.get("containers") or ()]
    found = words.kept_value({key: value for key, value in found.items() if value})
    found["metadata"] |= _only(metadata, BY_SERVER)
    return {"apiVersion": document.get("apiVersion", ""), "kind": kind, **found}


def _only(document: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {key: document[key] for key in fields if key in document}


def _ours(marks: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (marks or {}).items() if key.startswith(PREFIXES)}


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return _only(container, CONTAINER) | {"env": [each.get("name", "") for each in container.get("env") or ()]}
