"""Which objects are deleted and created anew where a field of them may not be changed, and what to do about the others.

A Job, a binding of a role, a ConfigMap or Secret is nothing but what its document says, unless others have added data.
Of other kinds the author of a document may allow it by an annotation. What holds data of users is never deleted for
that, nor a StatefulSet whose volumes go with it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kube_runtime.apply.field_sets import entries_of, fields_of, is_applied
from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.apply.order import CRD
from kube_runtime.resource import JsonObject

_RBAC = "rbac.authorization.k8s.io"
_STATEFUL_SET = ("apps", "StatefulSet")
_OF_KEYS = frozenset({("", "ConfigMap"), ("", "Secret")})
_WITHOUT_LOSS = _OF_KEYS | {("batch", "Job"), (_RBAC, "RoleBinding"), (_RBAC, "ClusterRoleBinding")}
_HOLDING_DATA = frozenset({CRD, ("", "Namespace"), ("", "PersistentVolume"), ("", "PersistentVolumeClaim")})


def may_recreate(
    entry: InventoryEntry, document: Mapping[str, Any], annotation: str, live: JsonObject, managers: Collection[str]
) -> bool:
    """Tell whether an object of which a field may not be changed may be deleted for that.

    `managers` are the field managers of the document.
    """
    kind = (entry.group, entry.kind)
    if kind in _HOLDING_DATA or not (kind in _WITHOUT_LOSS or _is_allowed(document, annotation)):
        return False
    if kind == _STATEFUL_SET:
        return (live["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get("whenDeleted") != "Delete"
    return kind not in _OF_KEYS or not _added_by_others(document, live, managers)


def unchangeable(fields: Sequence[str]) -> str:
    """Say which fields may not be changed."""
    return f"{', '.join(fields)} can't be changed once the object exists"


def way_out(entry: InventoryEntry, document: Mapping[str, Any], fields: Sequence[str], annotation: str) -> str:
    """Say which fields may not be changed, and what to do."""
    what = unchangeable(fields)
    kind = (entry.group, entry.kind)
    if kind in _HOLDING_DATA | _OF_KEYS or (kind == _STATEFUL_SET and _is_allowed(document, annotation)):
        return f"{what}; deleting it deletes data: do that yourself, or leave the field as it was"
    if kind in _WITHOUT_LOSS or not annotation or _is_allowed(document, annotation):
        return f"{what}; delete the object, and it is created anew"
    return f'{what}; delete it, or set its annotation {annotation}: "true" in the manifest'


def _is_allowed(document: Mapping[str, Any], annotation: str) -> bool:
    return bool(annotation) and (document["metadata"].get("annotations") or {}).get(annotation) == "true"


def _added_by_others(document: Mapping[str, Any], live: JsonObject, managers: Collection[str]) -> set[str]:
    """Return the keys of a ConfigMap or Secret that are neither in its document nor were applied with it before."""
    own = {f"f:{key}" for section in ("data", "binaryData") for key in document.get(section) or ()}
    for each in entries_of(live):
        if is_applied(each) and each.get("manager") in managers:
            own.update(*(fields_of(each).get(f"f:{section}", ()) for section in ("data", "binaryData", "stringData")))
    return {f"f:{key}" for section in ("data", "binaryData") for key in live.get(section) or ()} - own
