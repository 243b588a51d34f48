"""The rules of a Kyma: from one snapshot to what has to be done in the SKR and in KCP, and nothing else.

A Kyma that is not being deleted gets the Kyma CRD and a Kyma CR in its SKR, once; from then on that CR's `spec` is
the users' and only read. What it asks for becomes Manifests. One that is being deleted waits until what its modules
have left in the SKR is gone, then removes what it brought there, then lets go of itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lifecycle_manager.kyma.observe import SkrView, Snapshot
from lifecycle_manager.kyma.status import deleting_status, failed_status, for_skr, grace_left, status_of
from lifecycle_manager.kyma.story import Happening, happenings
from lifecycle_manager.kyma.wanted import Wanted, names_of, wanted_of
from lifecycle_manager.kyma_conditions import remaining_parts as parts_still_there
from lifecycle_manager.skr import AccessSecretMissing, ClusterClaimed, SkrFailure
from lifecycle_manager_api import Kyma, KymaSpec, KymaStatus, Manifest, SyncResource, names

CRD_HASH = f"{names.GROUP}/skr-kyma-crd-hash"

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
    """Set the labels and annotations that the control plane keeps on the users' Kyma CR, and take off what is None."""

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteSkrStatus:
    """Show the users the state of their modules."""

    status: KymaStatus


@dataclass(frozen=True, slots=True)
class DeleteSkrKyma:
    """Remove the users' Kyma CR, and let it go if it is held in our name; `purge` for whoever else holds it, too."""

    purge: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseSkrKyma:
    """Let a Kyma CR go that a user deletes and that is held in our name; another one takes its place."""


@dataclass(frozen=True, slots=True)
class RemoveKymaCrd:
    """Remove the definition that was brought to the SKR, unless somebody has Kymas of their own there."""


@dataclass(frozen=True, slots=True)
class PurgeFinalizers:
    """Take the finalizers off what these brought to the SKR and waits there to be deleted."""

    manifests: tuple[Manifest, ...]
    sync_resources: tuple[SyncResource, ...] = ()


@dataclass(frozen=True, slots=True)
class TellUsers:
    """Record what happened as Kubernetes Events on the users' Kyma CR."""

    happenings: tuple[Happening, ...]


@dataclass(frozen=True, slots=True)
class RecordCrdHash:
    """Remember on the Kyma in KCP which CRD of the control plane its SKR has; empty for none of them."""

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


@dataclass(frozen=True, slots=True)
class ApplyManifest:
    """Have a module installed as this Manifest says. `managed_again` where it was left alone before."""

    manifest: Manifest
    managed_again: bool = False


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Have a module stay installed as it is, whatever becomes of it."""

    manifest: str


@dataclass(frozen=True, slots=True)
class DeleteManifest:
    """Have a module removed, in the foreground: what it consists of goes first."""

    manifest: str


@dataclass(frozen=True, slots=True)
class DeleteSyncResource:
    """Have what a Module Manager wanted in the SKR removed."""

    name: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Record what happened as Kubernetes Events on the Kyma."""

    happenings: tuple[Happening, ...]


SkrAction = (
    InstallKymaCrd
    | CreateSkrKyma
    | SyncSkrMetadata
    | WriteSkrStatus
    | TellUsers
    | DeleteSkrKyma
    | ReleaseSkrKyma
    | RemoveKymaCrd
    | PurgeFinalizers
)
ModuleAction = ApplyManifest | LeaveAlone | DeleteManifest | DeleteSyncResource
KcpAction = RecordCrdHash | AddFinalizer | RemoveFinalizer | ModuleAction | WriteStatus | Tell


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in the user cluster first, and in the control plane after that.

    `again` is when something changes by the clock alone, `soon` says that the outcome has to be looked at at once.
    """

    in_skr: tuple[SkrAction, ...] = ()
    in_kcp: tuple[KcpAction, ...] = ()
    again: datetime | None = None
    soon: bool = False


def plan(snapshot: Snapshot) -> Plan:
    """Decide what a Kyma needs next."""
    kyma = snapshot.kyma
    if kyma.metadata.being_deleted:
        return _plan_deletion(snapshot)
    if kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true":
        return Plan()
    if names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return Plan(in_kcp=(AddFinalizer(),))
    match snapshot.skr:
        case SkrFailure() as failure:
            return _plan_failure(snapshot, failure)
        case SkrView(skr_kyma):
            return _plan_introduction(snapshot) if skr_kyma is None else _plan_upkeep(snapshot, skr_kyma)


def visible_metadata(kyma: Kyma) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that the Kyma CR in the SKR carries."""
    labels = {key: value for key, value in kyma.metadata.labels.items() if key in VISIBLE_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    return labels, {names.OWNED_BY: f"{kyma.metadata.namespace}/{kyma.metadata.name}"}


def _plan_failure(snapshot: Snapshot, failure: SkrFailure) -> Plan:
    left = grace_left(snapshot, failure)
    return Plan(
        in_kcp=_report(snapshot.kyma, failed_status(snapshot, failure)),
        again=snapshot.timing.now + left if left else None,
    )


def _plan_introduction(snapshot: Snapshot) -> Plan:
    labels, annotations = visible_metadata(snapshot.kyma)
    return Plan(
        in_skr=(InstallKymaCrd(), CreateSkrKyma(snapshot.kyma.spec, labels, annotations)),
        in_kcp=(RecordCrdHash(snapshot.crd_hash),) if _has_other_crd(snapshot) else (),
        soon=True,
    )


def _plan_upkeep(snapshot: Snapshot, skr_kyma: Kyma) -> Plan:
    kyma = snapshot.kyma
    wanted = wanted_of(snapshot, skr_kyma.spec)
    status = status_of(snapshot, wanted)
    recorded = (RecordCrdHash(snapshot.crd_hash),) if _awaits_crd(snapshot) else ()
    return Plan(
        in_skr=tuple(_upkeep_in_skr(snapshot, skr_kyma, status)),
        in_kcp=(*recorded, *_manifest_actions(wanted), *_report(kyma, status)),
        again=min((each.resolution.again for each in wanted.modules if each.resolution.again), default=None),
        soon=skr_kyma.metadata.being_deleted and names.KYMA_FINALIZER in skr_kyma.metadata.finalizers,
    )


def _upkeep_in_skr(snapshot: Snapshot, skr_kyma: Kyma, status: KymaStatus) -> Iterator[SkrAction]:
    kyma = snapshot.kyma
    if _awaits_crd(snapshot):
        yield InstallKymaCrd()
    if skr_kyma.metadata.being_deleted:
        if names.KYMA_FINALIZER in skr_kyma.metadata.finalizers:
            yield ReleaseSkrKyma()
        return
    labels, annotations = visible_metadata(kyma)
    gone = dict.fromkeys(sorted(VISIBLE_LABELS & skr_kyma.metadata.labels.keys() - labels.keys()))
    if gone or not _holds(skr_kyma.metadata.labels, labels) or not _holds(skr_kyma.metadata.annotations, annotations):
        yield SyncSkrMetadata({**labels, **gone}, annotations)
    yield from _show(skr_kyma, status)


def _show(skr_kyma: Kyma, status: KymaStatus) -> Iterator[SkrAction]:
    """Show a status to the users that is not the one there, and tell of what changed with it."""
    shown = for_skr(status, skr_kyma)
    if skr_kyma.status != shown:
        yield WriteSkrStatus(shown)
        if told := happenings(skr_kyma.status, shown):
            yield TellUsers(told)


def _manifest_actions(wanted: Wanted) -> Iterator[KcpAction]:
    for module in wanted.modules:
        held = module.manifest.metadata if module.manifest is not None else None
        if held is not None and not module.resolution.module.managed:
            if names.IS_UNMANAGED not in held.annotations:
                yield LeaveAlone(held.name)
        elif module.wanted is not None and module.to_be_written:
            yield ApplyManifest(module.wanted, held is not None and names.IS_UNMANAGED in held.annotations)
    yield from _deletions(wanted.leaving)


def _deletions(manifests: tuple[Manifest, ...]) -> Iterator[KcpAction]:
    for manifest in manifests:
        if not manifest.metadata.being_deleted:
            yield DeleteManifest(manifest.metadata.name)


def _plan_deletion(snapshot: Snapshot) -> Plan:
    """Go one step further: Manifests, then what Module Managers made, then the Watcher and the catalog, then the CR.

    The folders that look after the Watcher and the catalog see from the Kyma's conditions that it is their turn.
    """
    kyma = snapshot.kyma
    if names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        return Plan()
    if snapshot.manifests:
        waiting = _wait(snapshot, names_of(snapshot.manifests), tuple(_deletions(snapshot.manifests)))
        return _purging(snapshot, waiting, PurgeFinalizers(snapshot.manifests))
    if waits := _names_of_configuration(snapshot):
        waiting = _wait(snapshot, waits, tuple(_stray_sync_resources(snapshot)))
        return _purging(snapshot, waiting, PurgeFinalizers((), snapshot.sync_resources))
    match snapshot.skr:
        case SkrFailure(AccessSecretMissing.reason | ClusterClaimed.reason):
            return Plan(in_kcp=(RemoveFinalizer(),))
        case SkrFailure() as failure:
            return _wait(snapshot, (failure.message,), modules_gone=True)
        case SkrView(skr_kyma):
            return _leave_the_cluster(snapshot, skr_kyma)


def _leave_the_cluster(snapshot: Snapshot, skr_kyma: Kyma | None) -> Plan:
    if waits := parts_still_there(snapshot.kyma):
        return _wait(snapshot, waits, modules_gone=True)
    if skr_kyma is None:
        return Plan(in_skr=(RemoveKymaCrd(),), in_kcp=(RemoveFinalizer(),))
    waiting = _wait(
        snapshot, (f"Kyma {names.SKR_NAMESPACE}/{names.DEFAULT_KYMA_NAME} in the cluster",), modules_gone=True
    )
    first = not skr_kyma.metadata.being_deleted or names.KYMA_FINALIZER in skr_kyma.metadata.finalizers
    due = _purge_at(snapshot)
    purge = due is not None and due <= snapshot.timing.now and bool(skr_kyma.metadata.finalizers)
    acting = first or purge
    again = min((each for each in (due, waiting.again) if each and each > snapshot.timing.now), default=None)
    return replace(waiting, in_skr=(DeleteSkrKyma(purge),) if acting else (), again=again, soon=acting)


def _purging(snapshot: Snapshot, waiting: Plan, purge: PurgeFinalizers) -> Plan:
    """Help what is waited for along, once that is due."""
    due = _purge_at(snapshot)
    if due is None or isinstance(snapshot.skr, SkrFailure):
        return waiting
    if snapshot.timing.now >= due:
        return replace(waiting, in_skr=(*waiting.in_skr, purge))
    return replace(waiting, again=min(due, waiting.again or due))


def _purge_at(snapshot: Snapshot) -> datetime | None:
    """Return from when on finalizers are taken off; None where they never are."""
    since, purge = snapshot.kyma.metadata.deletion_timestamp, snapshot.patience.purge
    return since + purge if since is not None and purge is not None else None


def _wait(
    snapshot: Snapshot, waits: tuple[str, ...], actions: tuple[KcpAction, ...] = (), *, modules_gone: bool = False
) -> Plan:
    status = deleting_status(snapshot, waits, modules_gone=modules_gone)
    readable = isinstance(snapshot.skr, SkrView) and snapshot.skr.is_readable
    skr_kyma = snapshot.skr.kyma if isinstance(snapshot.skr, SkrView) and readable else None
    since = snapshot.kyma.metadata.deletion_timestamp
    stuck_at = since + snapshot.patience.deletion if since is not None else None
    return Plan(
        in_skr=tuple(_show(skr_kyma, status)) if skr_kyma is not None else (),
        in_kcp=(*actions, *_report(snapshot.kyma, status)),
        again=stuck_at if stuck_at is not None and stuck_at > snapshot.timing.now else None,
    )


def _names_of_configuration(snapshot: Snapshot) -> tuple[str, ...]:
    configs = (f"ModuleConfig {config.metadata.name}" for config in snapshot.module_configs)
    synced = (f"SyncResource {resource.metadata.name}" for resource in snapshot.sync_resources)
    return (*configs, *synced)


def _stray_sync_resources(snapshot: Snapshot) -> Iterator[KcpAction]:
    """Delete the SyncResources that no ModuleConfig takes with it."""
    if not snapshot.module_configs:
        for resource in snapshot.sync_resources:
            if not resource.metadata.being_deleted:
                yield DeleteSyncResource(resource.metadata.name)


def _awaits_crd(snapshot: Snapshot) -> bool:
    """Tell whether a cluster that has a CRD is to have another one."""
    return snapshot.crd_hash != "" and _has_other_crd(snapshot)


def _has_other_crd(snapshot: Snapshot) -> bool:
    return snapshot.kyma.metadata.annotations.get(CRD_HASH, "") != snapshot.crd_hash


def _report(kyma: Kyma, status: KymaStatus) -> tuple[KcpAction, ...]:
    """Write a status that is not the one there, and tell of what changed with it."""
    if kyma.status == status:
        return ()
    told = happenings(kyma.status, status)
    return (WriteStatus(status), *((Tell(told),) if told else ()))


def _holds(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(actual.get(key) == value for key, value in wanted.items())
