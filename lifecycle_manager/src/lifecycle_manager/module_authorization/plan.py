"""Why the policy is not in force, by what was read and by what became of a SyncResource that it has to refuse.

May delete: nothing.
"""

from collections.abc import Mapping
from typing import Any

from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION

Document = Mapping[str, Any]

NARROWING = (
    "excludeResourceRules",
    "matchConditions",
    "matchResources",
    "namespaceSelector",
    "objectSelector",
    "paramKind",
    "paramRef",
    "resourceNames",
)
"""Fields that the shipped objects leave empty, and by which the policy would apply to fewer objects."""


def difference(found: Document | None, shipped: Document) -> str:
    """Return why an object does not protect as the shipped one does, empty if it does."""
    name = f"{shipped['kind']} {shipped['metadata']['name']}"
    if found is None:
        return f"{name} is missing"
    field = _first_difference(shipped["spec"], found.get("spec"), "spec")
    return f"{name} differs from the shipped one in {field}" if field else ""


def why_not_applied(namespace: str, refusal: str) -> str:
    """Return why the policy is not applied, by how a SyncResource was refused; empty where it was accepted."""
    if not refusal:
        return (
            f"a SyncResource in {namespace} was accepted in a dry run, although nobody may manage modules there: "
            "the policy is not applied, or Lifecycle Manager runs as an administrator"
        )
    if MODULE_AUTHORIZATION not in refusal:
        return f"the dry run of a SyncResource in {namespace} was not refused by the policy: {refusal}"
    return ""


def _first_difference(shipped: Any, found: Any, path: str) -> str:
    """Return the path of the first field that differs. Fields that the API server filled in are no difference."""
    if isinstance(shipped, Mapping) and isinstance(found, Mapping):
        narrowed = (f"{path}.{name}" for name in NARROWING if name not in shipped and found.get(name))
        differing = (_first_difference(value, found.get(key), f"{path}.{key}") for key, value in shipped.items())
        return next(narrowed, "") or next(filter(None, differing), "")
    if isinstance(shipped, list) and isinstance(found, list) and len(shipped) == len(found):
        pairs = enumerate(zip(shipped, found, strict=True))
        return next(filter(None, (_first_difference(*pair, f"{path}[{index}]") for index, pair in pairs)), "")
    return "" if shipped == found else path
