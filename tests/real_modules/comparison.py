"""What has to be equal in two clusters: objects without what each server gives them, and who owns which fields."""

from collections.abc import Mapping
from typing import Any

from kube_runtime import ObjectKey
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.object_set.ownership import SetOwner
from lifecycle_manager_api import names

Document = dict[str, Any]
KUBECTL = "kubectl"
_OWNER = SetOwner(ObjectKey("", ""), "", is_module=True)
_OURS = {"labels": frozenset(_OWNER.all_labels), "annotations": frozenset({*_OWNER.annotations, names.DISCLAIMER})}
_OF_THE_SERVER = frozenset({"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"})
_NOBODY = "before-first-apply"
"""Who owns what an object had that nobody owned: one without labels, while the product's have some."""
_ALLOCATED = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})


def differences(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Name what differs between two values."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return [
            each
            for key in sorted({*wanted, *found})
            for each in differences(wanted.get(key, "(none)"), found.get(key, "(none)"), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [each for number, pair in pairs for each in differences(*pair, f"{path}[{number}]")]
    return [] if type(wanted) is type(found) and wanted == found else [f"{path}: {wanted!r} by kubectl, {found!r} here"]


def compared(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Name what differs between an object of kubectl's cluster and that of the product's.

    Where the applier owns nothing of an object, the server drops the entries of other owners. The product owns labels.
    """
    wanted, found = comparable(theirs), comparable(ours)
    if any(each["manager"] == _NOBODY for each in theirs["metadata"].get("managedFields") or ()):
        wanted, found = (without_edits(each) for each in (wanted, found))
    return differences(wanted, found)


def without_edits(content: Document) -> Document:
    owners = {owner: fields for owner, fields in content["owners"].items() if "/Update/" not in owner}
    return {**content, "owners": owners}


def comparable(live: Mapping[str, Any]) -> Document:
    """Return an object as it is to be compared."""
    metadata = {key: value for key, value in live["metadata"].items() if key not in _OF_THE_SERVER}
    for section, ours in _OURS.items():
        given: Document = metadata.pop(section, None) or {}
        left = {key: given[key] for key in given if key not in ours}
        if left:
            metadata[section] = left
    content = {key: value for key, value in live.items() if key not in {"metadata", "status"}}
    if live["kind"] == "Service":
        content["spec"] = _without_allocated(content["spec"])
    return {**content, "metadata": metadata, "owners": _owners(live)}


def _without_allocated(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: "allocated" if key in _ALLOCATED and below != "None" else _without_allocated(below)
            for key, below in value.items()
        }
    return [_without_allocated(each) for each in value] if isinstance(value, list) else value


def _owners(live: Mapping[str, Any]) -> Document:
    """Return the fields of each field manager; the product's are those of kubectl."""
    owners: Document = {}
    for each in live["metadata"].get("managedFields") or ():
        manager = KUBECTL if each["manager"] == FIELD_MANAGER else each["manager"]
        owner = f"{manager}/{each['operation']}/{each.get('subresource', '')}"
        if not each.get("subresource") and manager != _NOBODY:
            owners[owner] = _merged(owners.get(owner, {}), _without_ours(each["fieldsV1"]))
    return {owner: fields for owner, fields in owners.items() if fields}


def _without_ours(fields: Mapping[str, Any]) -> Document:
    metadata = dict(fields.get("f:metadata", {}))
    for section, ours in _OURS.items():
        named = {f"f:{key}" for key in ours} | {"."}
        left = {key: value for key, value in metadata.pop(f"f:{section}", {}).items() if key not in named}
        if left:
            metadata[f"f:{section}"] = left
    rest = {key: value for key, value in fields.items() if key != "f:metadata"}
    return rest | ({"f:metadata": metadata} if metadata else {})


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    return {key: _merged(one.get(key, {}), other.get(key, {})) for key in {*one, *other}}
