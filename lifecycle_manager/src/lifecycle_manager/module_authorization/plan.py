"""Why the policy is not in force, by what was read and by what became of a SyncResource that it has to refuse.

May delete: nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Probe:
    """What the API server answered to the dry run of a SyncResource; no refusal where it was accepted.

    `is_denied`: the policy refused it, or Lifecycle Manager lacks the right.
    """

    namespace: str
    refusal: str = ""
    is_denied: bool = False


@dataclass(frozen=True, slots=True)
class AuthorizationSnapshot:
    """The policy and its binding in KCP, None where they are missing, and the answer to the probe."""

    policy: Document | None
    binding: Document | None
    probe: Probe


def why_not_in_force(seen: AuthorizationSnapshot, *, policy: Document, binding: Document) -> str:
    """Return why the policy is not in force, empty if it is. `policy` and `binding` are those that are shipped."""
    return _differs(seen.policy, policy) or _differs(seen.binding, binding) or _is_not_applied(seen.probe)


def _differs(found: Document | None, shipped: Document) -> str:
    name = f"{shipped['kind']} {shipped['metadata']['name']}"
    if found is None:
        return f"{name} is missing"
    field = _first_difference(shipped["spec"], found.get("spec"), "spec")
    return f"{name} differs from the shipped one in {field}" if field else ""


def _is_not_applied(probe: Probe) -> str:
    if not probe.refusal:
        return (
            f"a SyncResource in {probe.namespace} was accepted in a dry run, although nobody may manage modules there: "
            "the policy is not applied, or Lifecycle Manager runs as an administrator"
        )
    if MODULE_AUTHORIZATION not in probe.refusal:
        return f"the dry run of a SyncResource in {probe.namespace} was not refused by the policy: {probe.refusal}"
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
