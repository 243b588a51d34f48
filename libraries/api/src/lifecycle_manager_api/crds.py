"""The CustomResourceDefinitions, generated from the types."""

from collections.abc import Mapping
from typing import Any

from kube_crds import FREE_FORM, crd_of, object_schema
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.kyma import Kyma
from lifecycle_manager_api.manifest import Manifest
from lifecycle_manager_api.module_config import ModuleConfig
from lifecycle_manager_api.module_policy import ModulePolicy
from lifecycle_manager_api.module_release_meta import ModuleReleaseMeta
from lifecycle_manager_api.module_rollout import ModuleRollout
from lifecycle_manager_api.module_template import ModuleTemplate
from lifecycle_manager_api.rollout_strategy import RolloutStrategy
from lifecycle_manager_api.sync_resource import SyncResource
from lifecycle_manager_api.watcher import Watcher

KINDS: tuple[type[ApiObject], ...] = (
    Kyma,
    ModuleTemplate,
    ModuleReleaseMeta,
    Manifest,
    Watcher,
    ModuleConfig,
    SyncResource,
    ModulePolicy,
    RolloutStrategy,
    ModuleRollout,
)
STORED_BEFORE = {"v1beta2": "v1beta1"}

Document = dict[str, Any]

PENDING: Document = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "Pending",
    "message": "waiting for Lifecycle Manager to reconcile the object",
    "lastTransitionTime": "1970-01-01T00:00:00Z",
}
"""The condition of an object whose status has not been written yet. It is the default in the CRD."""
SHARED_KINDS = frozenset({"Kyma", "ModuleTemplate", "Manifest", "Watcher"})
"""Without that default: the Lifecycle Manager in Go, to which a fleet may go back, never has such a Kyma Ready."""


def all_crds() -> tuple[Document, ...]:
    """Return every CustomResourceDefinition."""
    return tuple(crd_for(kind) for kind in KINDS)


def crd_for(kind: type[ApiObject]) -> Document:
    """Return the CustomResourceDefinition of a kind, with a version that may still be stored."""
    crd = crd_of(kind)
    versions = crd["spec"]["versions"]
    (current,) = versions
    if kind.KIND not in SHARED_KINDS:
        current["schema"] = {"openAPIV3Schema": _with_first_status(object_schema(kind))}
    before = STORED_BEFORE.get(kind.VERSION)
    if before is not None:
        versions.append(_stored_before(kind, before, current["subresources"]))
    return crd


def _with_first_status(schema: Mapping[str, Any]) -> Document:
    """Return a schema with a default status for objects without one."""
    properties = schema["properties"]
    if "status" not in properties:
        return dict(schema)
    state: Document = {"state": ""} if "state" in properties["status"].get("required", ()) else {}
    status = {**properties["status"], "default": {**state, "conditions": [PENDING]}}
    return {**schema, "properties": {**properties, "status": status}}


def _stored_before(kind: type[ApiObject], version: str, subresources: Document) -> Document:
    """Return a version that is no longer served; objects may still be stored in it."""
    return {
        "name": version,
        "served": False,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": f"{kind.GROUP}/{version} {kind.KIND} is no longer served; use {kind.VERSION}",
        "schema": {"openAPIV3Schema": dict(FREE_FORM)},
        "subresources": subresources,
    }
