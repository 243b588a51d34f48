"""The rules of a Kyma: from one snapshot to what has to be done in the SKR and in KCP, and nothing else.

A Kyma that is not being deleted gets the Kyma CRD and a Kyma CR in its SKR, once; from then on that CR's `spec` is
the users' and only read. One that is being deleted waits until what its modules have left in the SKR is gone, then
removes what it brought there, then lets go of itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lifecycle_manager.kyma.observe import SkrView, Snapshot
from lifecycle_manager.kyma.resolution import resolve
from lifecycle_manager.kyma.status import deleting_status, for_skr, status_of
from lifecycle_manager.skr import AccessSecretMissing, SkrFailure
from lifecycle_manager.skr.event_path import CONDITION as WEBHOOK_CONDITION
from lifecycle_manager_api import Kyma, KymaSpec, KymaStatus, names

CRD_HASH = f"{names.GROUP}/skr-kyma-crd-hash"
WEBHOOK_REMOVED = "Removed"

# What the users of a cluster may see of the Kyma in the control plane; anything else stays there.
VISIBLE_LABELS = frozenset(
    {
        names.RUNTIME_ID,
        names.INSTANCE_ID,
        names.GLOBAL_ACCOUNT_ID,
        names.SUBACCOUNT_ID,
        names.REGION,
        names.PLATFORM_REGION,
        names.BROKER_PLAN_NAME,
        names.INTERNAL,
        names.BETA,
    }
)


@dataclass(frozen=True, slots=True)
class InstallKymaCrd:
    """Bring namespace and CRD to the SKR, and wait until the API server there serves it."""


@dataclass(frozen=True, slots=True)
class CreateSkrKyma:
    """Create the users' Kyma CR; one that is there already is left as it is."""

    spec: KymaSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SyncSkrMetadata:
    """Apply the labels and annotations that the control plane keeps on the users' Kyma CR."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteSkrStatus:
    """Show the users the state of their modules."""

    status: KymaStatus


@dataclass(frozen=True, slots=True)
class DeleteSkrKyma:
    """Remove the users' Kyma CR."""


@dataclass(frozen=True, slots=True)
class RecordCrdHash:
    """Remember on the Kyma in KCP which CRD its SKR has."""

    crd_hash: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Hold the Kyma until its cluster is cleaned up."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the Kyma go."""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of the Kyma in KCP."""

    status: KymaStatus


SkrAction = InstallKymaCrd | CreateSkrKyma | SyncSkrMetadata | WriteSkrStatus | DeleteSkrKyma
KcpAction = RecordCrdHash | AddFinalizer | RemoveFinalizer | WriteStatus


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in the user cluster first, and in the control plane after that."""

    in_skr: tuple[SkrAction, ...] = ()
    in_kcp: tuple[KcpAction, ...] = ()


def plan(snapshot: Snapshot) -> Plan:
    """Decide what a Kyma needs next."""
    kyma = snapshot.kyma
    if kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true" and not _deleting(kyma):
        return Plan()
    if _deleting(kyma):
        return _plan_deletion(snapshot)
    if names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return Plan(in_kcp=(AddFinalizer(),))
    match snapshot.skr:
        case SkrFailure():
            return Plan(in_kcp=_status_if_changed(kyma, status_of(snapshot, ())))
        case SkrView(skr_kyma):
            return _plan_introduction(snapshot) if skr_kyma is None else _plan_upkeep(snapshot, skr_kyma)


def spec_in_force(snapshot: Snapshot) -> KymaSpec:
    """Return the users' spec where there is one, else the defaults that their Kyma CR will start with."""
    match snapshot.skr:
        case SkrView(kyma) if kyma is not None:
            return kyma.spec
        case _:
            return snapshot.kyma.spec


def visible_metadata(kyma: Kyma) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that the Kyma CR in the SKR carries."""
    labels = {key: value for key, value in kyma.metadata.labels.items() if key in VISIBLE_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    return labels, {names.OWNED_BY: f"{kyma.metadata.namespace}/{kyma.metadata.name}"}


def _deleting(kyma: Kyma) -> bool:
    return kyma.metadata.deletion_timestamp is not None


def _plan_introduction(snapshot: Snapshot) -> Plan:
    labels, annotations = visible_metadata(snapshot.kyma)
    return Plan(
        in_skr=(InstallKymaCrd(), CreateSkrKyma(snapshot.kyma.spec, labels, annotations)),
        in_kcp=_record_crd_hash(snapshot),
    )


def _plan_upkeep(snapshot: Snapshot, skr_kyma: Kyma) -> Plan:
    kyma = snapshot.kyma
    in_skr: list[SkrAction] = []
    if kyma.metadata.annotations.get(CRD_HASH) != snapshot.crd_hash:
        in_skr.append(InstallKymaCrd())
    labels, annotations = visible_metadata(kyma)
    if not _holds(skr_kyma.metadata.labels, labels) or not _holds(skr_kyma.metadata.annotations, annotations):
        in_skr.append(SyncSkrMetadata(labels, annotations))
    status = status_of(snapshot, resolve(spec_in_force(snapshot), snapshot.catalog))
    if skr_kyma.status != for_skr(status, skr_kyma):
        in_skr.append(WriteSkrStatus(status))
    return Plan(in_skr=tuple(in_skr), in_kcp=_record_crd_hash(snapshot) + _status_if_changed(kyma, status))


def _plan_deletion(snapshot: Snapshot) -> Plan:
    kyma = snapshot.kyma
    if names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return Plan()
    if waits := _left_behind(snapshot):
        return Plan(in_kcp=_status_if_changed(kyma, deleting_status(snapshot, waits)))
    match snapshot.skr:
        case SkrFailure(reason, message) if reason != AccessSecretMissing.reason:
            return Plan(in_kcp=_status_if_changed(kyma, deleting_status(snapshot, (message,))))
        case SkrView(skr_kyma) if skr_kyma is not None:
            return Plan(in_skr=(DeleteSkrKyma(),), in_kcp=(RemoveFinalizer(),))
        case _:
            return Plan(in_kcp=(RemoveFinalizer(),))


def _left_behind(snapshot: Snapshot) -> tuple[str, ...]:
    """Name what has to go before the Kyma may, in the order in which it goes."""
    modules = [f"ModuleConfig {config.metadata.name}" for config in snapshot.module_configs]
    synced = [f"SyncResource {resource.metadata.name}" for resource in snapshot.sync_resources]
    webhook = next((c for c in snapshot.kyma.status.conditions if c.type == WEBHOOK_CONDITION), None)
    access_lost = isinstance(snapshot.skr, SkrFailure) and snapshot.skr.reason == AccessSecretMissing.reason
    watcher = (
        ["the Watcher in the cluster"]
        if webhook is not None and webhook.reason != WEBHOOK_REMOVED and not access_lost
        else []
    )
    return (*modules, *synced, *watcher)


def _record_crd_hash(snapshot: Snapshot) -> tuple[KcpAction, ...]:
    if snapshot.kyma.metadata.annotations.get(CRD_HASH) == snapshot.crd_hash:
        return ()
    return (RecordCrdHash(snapshot.crd_hash),)


def _status_if_changed(kyma: Kyma, status: KymaStatus) -> tuple[KcpAction, ...]:
    return () if kyma.status == status else (WriteStatus(status),)


def _holds(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(actual.get(key) == value for key, value in wanted.items())
