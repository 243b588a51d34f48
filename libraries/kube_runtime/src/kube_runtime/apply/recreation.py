"""Which objects are deleted and created anew where a field of them may not be changed, and what to do about the others.

A Job, a binding of a role, an immutable ConfigMap or Secret is nothing but what its document says. Of other kinds the
author of a document may allow it by an annotation. What holds data of users is never deleted for that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.apply.order import CRD

_RBAC = "rbac.authorization.k8s.io"
_WITHOUT_LOSS = frozenset(
    {("batch", "Job"), (_RBAC, "RoleBinding"), (_RBAC, "ClusterRoleBinding"), ("", "ConfigMap"), ("", "Secret")}
)
_HOLDING_DATA = frozenset({CRD, ("", "Namespace"), ("", "PersistentVolume"), ("", "PersistentVolumeClaim")})


def may_recreate(entry: InventoryEntry, document: Mapping[str, Any], annotation: str) -> bool:
    """Tell whether an object of which a field may not be changed may be deleted for that."""
    kind = (entry.group, entry.kind)
    if kind in _HOLDING_DATA:
        return False
    annotations = document["metadata"].get("annotations") or {}
    return kind in _WITHOUT_LOSS or (bool(annotation) and annotations.get(annotation) == "true")


def unchangeable(fields: Sequence[str]) -> str:
    """Say which fields may not be changed."""
    return f"{', '.join(fields)} can't be changed once the object exists"


def way_out(entry: InventoryEntry, fields: Sequence[str], annotation: str) -> str:
    """Say which fields may not be changed, and what to do."""
    what = unchangeable(fields)
    kind = (entry.group, entry.kind)
    if kind in _HOLDING_DATA:
        return f"{what}; deleting it deletes data: do that yourself, or leave the field as it was"
    if kind in _WITHOUT_LOSS or not annotation:
        return f"{what}; delete the object, and it is created anew"
    return f'{what}; delete it, or set its annotation {annotation}: "true" in the manifest'
