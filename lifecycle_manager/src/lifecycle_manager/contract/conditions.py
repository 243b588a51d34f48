"""The contract between domains: what each of them reads of the others in the conditions of a Kyma or its parts.

`Modules`, `SKRWebhook` and `ModuleCatalog` are written by different controllers, each with a field manager of its own.
A Kyma that is being deleted loses its parts in a fixed order: the modules, then the Watcher, then the catalog, then
the Kyma CR. Each controller waits until the condition of the part before its own says that it is removed, so nothing
is removed that something else still needs.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kube_runtime import Client
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager_api import Condition, ConditionStatus, Kyma, Manifest, SyncResource, find, names
from lifecycle_manager_api.conditions import set_conditions


class ConditionContent(NamedTuple):
    status: ConditionStatus
    reason: str
    message: str


NO_RECORDS: Mapping[str, str] = MappingProxyType({})

REACHABLE = "SKRReachable"
MODULES = "Modules"
WEBHOOK = "SKRWebhook"
CATALOG = "ModuleCatalog"
MANDATORY_MODULES = "MandatoryModules"
"""Present only since the Manifests of mandatory modules could not be decided on."""

CRDS_SYNC = "CRDsSync"
PULL_SECRET_SYNC = "SKRImagePullSecretSync"  # noqa: S105 - the type of a condition
"""Present with `--skr-image-pull-secret` only."""

COMPLETE = "Complete"
"""The type of a condition of one ModuleConfig of a module: whether every Module CR has a ModuleConfig."""

VALID, APPLIED = names.VALID_CONDITION, names.APPLIED_CONDITION

VIRTUAL_SERVICE = "VirtualService"
"""The type of a condition of a Watcher CR: whether the Istio gateway routes its events."""

CLUSTER_CLAIMED = "SKRClaimed"
"""The reason of `skr.ClusterClaimed`."""
MODULES_REMOVED = "ModulesRemoved"
REMOVED = "Removed"
"""The reason of `SKRWebhook` and `ModuleCatalog` once that part is removed from the cluster."""
CATALOG_SYNCED = "Synced"
CATALOG_SYNC_FAILED = "CatalogSyncFailed"
PULL_SECRET_REFUSED = "ImagePullSecretRefused"  # noqa: S105 - a reason
WATCHER_SILENT = "WatcherSilent"
"""No events any more from a Watcher that sent some before."""
EVENT_PATH_BROKEN = "EventPathBroken"
"""The Watcher sends heartbeats, but changes in the cluster do not reach it."""
NO_WATCHER_EVENTS = "NoWatcherEvents"
"""A Watcher was installed long enough ago, and never sent an event."""

DELETION_HELD = "DeletionHeld"
"""The reason of conditions of what the brake on deletions holds."""
CERTIFICATE_OVERDUE = "CertificateRenewalOverdue"
"""The reason of `SKRWebhook` while a Watcher works with a certificate that should have been renewed."""

WATCHER_READY = "WatcherReady"

BROKEN_AFTER_WORKING = frozenset({WATCHER_SILENT, EVENT_PATH_BROKEN})
"""Faults of a cluster whose webhook is in place."""
EVENT_PATH_FAULTS = BROKEN_AFTER_WORKING | {NO_WATCHER_EVENTS}

FAULT_INTERVAL_SECONDS = 5.0
"""How often a cluster is reconciled while no event can report its changes."""

MODULE_CRS_IN_USE = "ModuleCRsInUse"
"""The reason of a module whose removal Module CRs of users block."""

PUBLIC_REASONS = frozenset(
    {
        # of Manifests and SyncResources
        "ApplyFailed",
        "Deleting",
        "InvalidResource",
        "ManagerFailed",
        "ManagerMissing",
        "ManagerNotReady",
        "ModuleCRDeleting",
        "ModuleCRError",
        "ModuleCRProcessing",
        "ModuleCRRefused",
        "ModuleCRWarning",
        MODULE_CRS_IN_USE,
        "ObjectsForbidden",
        "ObjectsTerminating",
        "ObjectsInUse",
        "ObjectsNotReady",
        "PolicyViolation",
        "TooManyObjects",
        # of the Watcher and the catalog
        CATALOG_SYNC_FAILED,
        PULL_SECRET_REFUSED,
        "Removing",
        "WatcherStarting",
        REMOVED,
        *EVENT_PATH_FAULTS,
    }
)
"""Reasons of conditions whose messages name nothing but objects of the SKR, so that its users may read them.

Those of all other conditions may name Secrets, hosts or other objects of the control plane, or other Kymas.
"""

NAMESPACE_NOT_WRITABLE = "NamespaceNotWritable"
"""The reason of a module whose ModuleConfigs can't be written in its namespace in KCP."""
_NOT_WRITABLE = re.compile(rf"(ModuleConfigs can't be written in [^;]+) \({NAMESPACE_NOT_WRITABLE}\)")

_PARTS = ((WEBHOOK, "the Watcher in the cluster"), (CATALOG, "the module catalog in the cluster"))


def is_introduced(kyma: Kyma) -> bool:
    """Tell whether the Kyma's cluster was read once, and does not belong to another Kyma."""
    reachable = find(kyma.status.conditions, REACHABLE)
    return reachable is not None and reachable.reason != CLUSTER_CLAIMED


def was_reached(kyma: Kyma) -> bool:
    """Tell whether there may be something of Lifecycle Manager in the Kyma's cluster, so that it is not forgotten."""
    reachable = find(kyma.status.conditions, REACHABLE)
    return bool(kyma.status.records.kyma_crd) or (reachable is not None and reachable.status == "True")


def event_path_fault(kyma: Kyma | None) -> Condition | None:
    """Return the condition with the reason why expected events do not arrive, or None."""
    condition = find(kyma.status.conditions, WEBHOOK) if kyma is not None else None
    return condition if condition is not None and condition.reason in EVENT_PATH_FAULTS else None


def is_event_path_faulty(kyma: Kyma | None) -> bool:
    """Tell whether no event can be expected from a Kyma's cluster although there should be some."""
    return event_path_fault(kyma) is not None


def interval_for(kyma: Kyma | None, seconds: float) -> float:
    """Return the interval of reconciles in seconds: short while no event can report changes."""
    return min(seconds, FAULT_INTERVAL_SECONDS) if is_event_path_faulty(kyma) else seconds


def has_webhook(kyma: Kyma) -> bool:
    """Tell whether the Watcher's webhook is installed: it is reported ready, or broken after it was."""
    condition = find(kyma.status.conditions, WEBHOOK)
    return condition is not None and condition.reason in BROKEN_AFTER_WORKING | {WATCHER_READY, CERTIFICATE_OVERDUE}


def modules_removed(kyma: Kyma) -> bool:
    """Tell whether all modules are removed, so that the Watcher may be removed."""
    return _has_reason(kyma, MODULES, MODULES_REMOVED)


def watcher_removed(kyma: Kyma) -> bool:
    """Tell whether the Watcher is removed or was never installed, so that the catalog may be removed."""
    return modules_removed(kyma) and not may_have(kyma, WEBHOOK)


def remaining_parts(kyma: Kyma) -> tuple[str, ...]:
    """Name the parts that may still be in the cluster after the modules."""
    return tuple(what for kind, what in _PARTS if may_have(kyma, kind))


def may_have(kyma: Kyma, part: str) -> bool:
    """Tell whether a part may be in the cluster, `part` being the type of its condition.

    A part is installed once the cluster was read. Its condition is written only after that.
    """
    condition = find(kyma.status.conditions, part)
    return is_introduced(kyma) if condition is None else condition.reason != REMOVED


def namespace_problem(namespace: str, why: str) -> str:
    return f"ModuleConfigs can't be written in namespace {namespace} (spec.controlPlaneNamespace): {why}"


def namespace_problems(kyma: Kyma) -> dict[str, str]:
    """Return why ModuleConfigs can't be written, as the status of a Kyma says it, by module."""
    found = ((each.name, _NOT_WRITABLE.search(each.message)) for each in kyma.status.modules)
    return {module: match[1] for module, match in found if match is not None}


async def write_condition(
    kcp: Client,
    kyma: Kyma,
    kind: str,
    content: tuple[ConditionStatus, str, str],
    *,
    now: datetime,
    field_manager: str,
    records: Mapping[str, str] = NO_RECORDS,
) -> Kyma | None:
    """Write one condition of a Kyma, `content` being status, reason and message, as a field manager. Raises KubeError.

    `records` are those that the field manager has in the status, in its JSON: left out, they would be removed.
    Returns the answer, for `informer.wrote`, or None where all of that is there already.
    """
    merged = set_conditions(kyma.status.conditions, [(kind, *content)], kyma.metadata.generation, now)
    known = msgspec.to_builtins(kyma.status.records)
    if merged == kyma.status.conditions and all(known.get(name, "") == text for name, text in records.items()):
        return None
    own = {"conditions": [find(merged, kind)], "records": {name: text for name, text in records.items() if text}}
    return await write_status(kcp, KYMAS, kyma.metadata, own, field_manager=field_manager)


def _has_reason(kyma: Kyma, kind: str, reason: str) -> bool:
    condition = find(kyma.status.conditions, kind)
    return condition is not None and condition.reason == reason


def is_deletion_held(item: Kyma | Manifest | SyncResource) -> bool:
    """Tell whether the deletion of something waits for `klm continue`."""
    return any(each.reason == DELETION_HELD for each in item.status.conditions)
