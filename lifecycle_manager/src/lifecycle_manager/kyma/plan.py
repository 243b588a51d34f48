"""The rules of a Kyma: from one snapshot to the actions in the SKR and in KCP.

A Kyma that is not being deleted gets the Kyma CRD and a Kyma CR in its SKR, once; from then on the `spec` of that CR
belongs to the users and is only read. The modules in it become Manifests. A Kyma that is being deleted waits until its
modules are removed from the SKR, then removes the Kyma CR and the CRD there, then its own finalizer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lifecycle_manager.kyma.events import Event, events_between, for_operators
from lifecycle_manager.kyma.module_status import module_cr_of
from lifecycle_manager.kyma.snapshot import SkrView, Snapshot
from lifecycle_manager.kyma.status import deleting_status, failed_status, for_skr, grace_left, status_of
from lifecycle_manager.kyma.wanted import Wanted, wanted_of
from lifecycle_manager.kyma_conditions import PULL_SECRET_SYNC, remaining_parts
from lifecycle_manager.module_catalog import module_of_manifest
from lifecycle_manager.skr import AccessSecretMissing, ClusterClaimed, SkrFailure
from lifecycle_manager.takeover import former
from lifecycle_manager_api import Kyma, KymaSpec, KymaStatus, Manifest, SyncResource, find, names

# The labels of the Kyma in KCP that the users of the SKR may see.
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
    """Apply namespace and CRD in the SKR, and wait until the API server there serves it."""


@dataclass(frozen=True, slots=True)
class CreateSkrKyma:
    """Create the Kyma CR in the SKR; an existing one stays as it is."""

    spec: KymaSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SyncSkrMetadata:
    """Set the labels and annotations of the Kyma CR in the SKR that KCP owns; None removes a label."""

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteSkrStatus:
    """Write the status of the Kyma CR in the SKR, and record there as Kubernetes Events what changed."""

    status: KymaStatus
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteSkrKyma:
    """Delete the Kyma CR in the SKR and remove the finalizer of Lifecycle Manager; with `purge` all finalizers."""

    purge: bool = False


@dataclass(frozen=True, slots=True)
class DeletePullSecret:
    """Delete the image pull Secret in the SKR."""


@dataclass(frozen=True, slots=True)
class RemoveSkrFinalizer:
    """Remove the finalizer of Lifecycle Manager from a Kyma CR that a user deletes; it is created again."""


@dataclass(frozen=True, slots=True)
class RemoveKymaCrd:
    """Remove the Kyma CRD from the SKR, unless users have Kymas of their own there."""


@dataclass(frozen=True, slots=True)
class PurgeFinalizers:
    """Remove the finalizers of objects of these that are being deleted in the SKR."""

    owners: tuple[Manifest | SyncResource, ...]


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Keep the Kyma until its SKR is cleaned up."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer, so that the Kyma is gone; with `of_others` all finalizers."""

    of_others: bool = False


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of the Kyma in KCP, and record as Kubernetes Events what changed."""

    status: KymaStatus
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyManifest:
    """Install a module by this Manifest. `managed_again` where the module was unmanaged."""

    manifest: Manifest
    managed_again: bool = False


@dataclass(frozen=True, slots=True)
class UpdateLeavingManifest:
    """Give a Manifest that is being deleted another version; once it is gone, it stays gone."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class MarkUnmanaged:
    """Annotate the Manifest of a module that stays installed as it is."""

    manifest: str


@dataclass(frozen=True, slots=True)
class DeleteManifest:
    """Remove a module: delete its Manifest in the foreground, so that its objects are deleted first."""

    manifest: str


@dataclass(frozen=True, slots=True)
class DeleteSyncResource:
    """Remove the objects that a Module Manager wanted in the SKR."""

    name: str
    namespace: str


SkrAction = (
    InstallKymaCrd
    | CreateSkrKyma
    | SyncSkrMetadata
    | WriteSkrStatus
    | DeleteSkrKyma
    | DeletePullSecret
    | RemoveSkrFinalizer
    | RemoveKymaCrd
    | PurgeFinalizers
)
ModuleAction = ApplyManifest | UpdateLeavingManifest | MarkUnmanaged | DeleteManifest | DeleteSyncResource
KcpAction = AddFinalizer | RemoveFinalizer | ModuleAction | WriteStatus


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions in the SKR, and those in KCP after them.

    `again` is when time alone changes the plan; `at_once` says that the outcome has to be read at once.
    """

    in_skr: tuple[SkrAction, ...] = ()
    in_kcp: tuple[KcpAction, ...] = ()
    again: datetime | None = None
    at_once: bool = False


def plan(snapshot: Snapshot) -> Plan:
    """Decide what a Kyma needs next."""
    kyma = snapshot.kyma
    if kyma.metadata.being_deleted:
        return _plan_deletion(snapshot)
    if kyma.metadata.is_paused:
        return Plan()
    if needs_finalizer(kyma):
        return Plan(in_kcp=(AddFinalizer(),))
    match snapshot.skr:
        case SkrFailure() as failure:
            return _plan_failure(snapshot, failure)
        case SkrView(skr_kyma):
            return _plan_creation(snapshot) if skr_kyma is None else _plan_upkeep(snapshot, skr_kyma)


def needs_finalizer(kyma: Kyma) -> bool:
    """Tell whether a Kyma lacks the finalizer, without which nothing may be done in its SKR."""
    return names.KYMA_FINALIZER not in kyma.metadata.finalizers and not kyma.metadata.being_deleted


def visible_metadata(kyma: Kyma) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that the Kyma CR in the SKR carries."""
    labels = {key: value for key, value in kyma.metadata.labels.items() if key in VISIBLE_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    return labels, {names.OWNED_BY: f"{kyma.metadata.namespace}/{kyma.metadata.name}"}


def _plan_failure(snapshot: Snapshot, failure: SkrFailure) -> Plan:
    left = grace_left(snapshot, failure)
    return Plan(
        in_kcp=report(snapshot.kyma, failed_status(snapshot, failure)),
        again=snapshot.timing.now + left if left else None,
    )


def _plan_creation(snapshot: Snapshot) -> Plan:
    """Create the Kyma CR; the rest is planned from what was created."""
    labels, annotations = visible_metadata(snapshot.kyma)
    return Plan(in_skr=(InstallKymaCrd(), CreateSkrKyma(snapshot.kyma.spec, labels, annotations)), at_once=True)


def _plan_upkeep(snapshot: Snapshot, skr_kyma: Kyma) -> Plan:
    kyma = snapshot.kyma
    wanted = wanted_of(snapshot, skr_kyma.spec)
    statuses = status_of(snapshot, wanted)
    return Plan(
        in_skr=tuple(_upkeep_in_skr(snapshot, skr_kyma, statuses.in_skr)),
        in_kcp=(*_manifest_actions(wanted), *report(kyma, statuses.in_kcp)),
        again=statuses.again,
        at_once=skr_kyma.metadata.being_deleted and names.KYMA_FINALIZER in skr_kyma.metadata.finalizers,
    )


def _upkeep_in_skr(snapshot: Snapshot, skr_kyma: Kyma, status: KymaStatus) -> Iterator[SkrAction]:
    kyma = snapshot.kyma
    if snapshot.needs_crd:
        yield InstallKymaCrd()
    if skr_kyma.metadata.being_deleted:
        if names.KYMA_FINALIZER in skr_kyma.metadata.finalizers:
            yield RemoveSkrFinalizer()
        return
    labels, annotations = visible_metadata(kyma)
    gone = dict.fromkeys(sorted(VISIBLE_LABELS & skr_kyma.metadata.labels.keys() - labels.keys()))
    if gone or not _holds(skr_kyma.metadata.labels, labels) or not _holds(skr_kyma.metadata.annotations, annotations):
        yield SyncSkrMetadata({**labels, **gone}, annotations)
    yield from _show(skr_kyma, status)


def _show(skr_kyma: Kyma, status: KymaStatus) -> Iterator[SkrAction]:
    """Write a status to the SKR that differs from the one there, and record what changed."""
    shown = for_skr(status, skr_kyma)
    if skr_kyma.status != shown:
        yield WriteSkrStatus(shown, events_between(skr_kyma.status, shown))


def _manifest_actions(wanted: Wanted) -> Iterator[KcpAction]:
    for module in wanted.modules:
        known = module.manifest.metadata if module.manifest is not None else None
        if module.manifest is not None and module.resolution.is_barred:
            yield from _deletions((module.manifest,))
        elif known is not None and not module.resolution.module.managed:
            if names.IS_UNMANAGED not in known.annotations:
                yield MarkUnmanaged(known.name)
        elif module.wanted is not None and module.to_be_written:
            yield ApplyManifest(module.wanted, known is not None and names.IS_UNMANAGED in known.annotations)
    yield from _deletions(wanted.removed)
    yield from map(UpdateLeavingManifest, wanted.leaving)


def _deletions(manifests: tuple[Manifest, ...]) -> Iterator[KcpAction]:
    for manifest in manifests:
        if not manifest.metadata.being_deleted:
            yield DeleteManifest(manifest.metadata.name)


def _plan_deletion(snapshot: Snapshot) -> Plan:
    """Decide on the next stage: Manifests, ModuleConfigs and SyncResources, Watcher and catalog, the Kyma CR.

    The domains of the Watcher and the catalog see from the Kyma's conditions that it is their turn.
    """
    kyma = snapshot.kyma
    is_gone = isinstance(snapshot.skr, SkrFailure) and snapshot.skr.reason == AccessSecretMissing.reason
    abandoned = is_gone and snapshot.patience.others_finalizers
    if names.KYMA_FINALIZER not in kyma.metadata.finalizers:
        if abandoned and kyma.metadata.finalizers:
            return Plan(in_kcp=(RemoveFinalizer(of_others=True),))
        left = {*former.KYMA_FINALIZERS} & {*kyma.metadata.finalizers}
        return Plan(in_kcp=(RemoveFinalizer(),)) if left else Plan()
    if snapshot.manifests:
        waits = tuple(sorted({f"module {module_of_manifest(each)}" for each in snapshot.manifests}))
        waiting = _wait(snapshot, waits, tuple(_deletions(snapshot.manifests)))
        return _purging(snapshot, waiting, PurgeFinalizers(snapshot.manifests))
    if waits := _configurations(snapshot):
        waiting = _wait(snapshot, waits, tuple(_stray_sync_resources(snapshot)))
        return _purging(snapshot, waiting, PurgeFinalizers(snapshot.sync_resources))
    match snapshot.skr:
        case SkrFailure(AccessSecretMissing.reason | ClusterClaimed.reason):
            return Plan(in_kcp=(RemoveFinalizer(of_others=abandoned),))
        case SkrFailure() as failure:
            return _wait(snapshot, (failure.message,), modules_removed=True)
        case SkrView(skr_kyma):
            return _plan_removal_from_skr(snapshot, skr_kyma)


def _plan_removal_from_skr(snapshot: Snapshot, skr_kyma: Kyma | None) -> Plan:
    if waits := remaining_parts(snapshot.kyma):
        return _wait(snapshot, waits, modules_removed=True)
    if skr_kyma is None:
        return Plan(in_skr=(*_pull_secret(snapshot), RemoveKymaCrd()), in_kcp=(RemoveFinalizer(),))
    waiting = _wait(
        snapshot, (f"Kyma {names.SKR_NAMESPACE}/{names.DEFAULT_KYMA_NAME} in the cluster",), modules_removed=True
    )
    first = not skr_kyma.metadata.being_deleted or names.KYMA_FINALIZER in skr_kyma.metadata.finalizers
    due = snapshot.deletion_plus(snapshot.patience.purge)
    purge = due is not None and due <= snapshot.timing.now and bool(skr_kyma.metadata.finalizers)
    acting = first or purge
    again = _first_after(snapshot.timing.now, due, waiting.again)
    return replace(waiting, in_skr=(DeleteSkrKyma(purge),) if acting else (), again=again, at_once=acting)


def _pull_secret(snapshot: Snapshot) -> tuple[SkrAction, ...]:
    """Delete the image pull Secret where the SKR has got it."""
    synced = find(snapshot.kyma.status.conditions, PULL_SECRET_SYNC)
    return (DeletePullSecret(),) if synced is not None and synced.status == "True" else ()


def _purging(snapshot: Snapshot, waiting: Plan, purge: PurgeFinalizers) -> Plan:
    """Remove finalizers from what blocks the deletion, once that is due."""
    due, now = snapshot.deletion_plus(snapshot.patience.purge), snapshot.timing.now
    if due is None or isinstance(snapshot.skr, SkrFailure):
        return waiting
    in_skr = (*waiting.in_skr, purge) if due <= now else waiting.in_skr
    return replace(waiting, in_skr=in_skr, again=_first_after(now, due, waiting.again))


def _first_after(now: datetime, *times: datetime | None) -> datetime | None:
    return min((each for each in times if each is not None and each > now), default=None)


def _wait(
    snapshot: Snapshot, waits: tuple[str, ...], actions: tuple[KcpAction, ...] = (), *, modules_removed: bool = False
) -> Plan:
    statuses = deleting_status(snapshot, waits, modules_removed=modules_removed)
    skr = snapshot.skr
    skr_kyma = skr.kyma if isinstance(skr, SkrView) and skr.is_readable else None
    return Plan(
        in_skr=tuple(_show(skr_kyma, statuses.in_skr)) if skr_kyma is not None else (),
        in_kcp=(*actions, *report(snapshot.kyma, statuses.in_kcp)),
        again=_first_after(snapshot.timing.now, statuses.again),
    )


def _configurations(snapshot: Snapshot) -> tuple[str, ...]:
    """Name the Module CRs and the objects that are still to be deleted, as users know them."""
    module_crs = [module_cr_of(each) or f"a Module CR of {each.spec.module}" for each in snapshot.module_configs]
    objects = [f"the objects of module {each.spec.module}" for each in snapshot.sync_resources]
    return tuple(dict.fromkeys((*module_crs, *objects)))


def _stray_sync_resources(snapshot: Snapshot) -> Iterator[KcpAction]:
    """Delete the SyncResources that are not deleted with a ModuleConfig."""
    if not snapshot.module_configs:
        for resource in snapshot.sync_resources:
            if not resource.metadata.being_deleted:
                yield DeleteSyncResource(resource.metadata.name, resource.metadata.namespace)


def report(kyma: Kyma, status: KymaStatus) -> tuple[KcpAction, ...]:
    """Write a status that differs from the one there, and record what changed."""
    if kyma.status == status:
        return ()
    return (WriteStatus(status, for_operators(events_between(kyma.status, status))),)


def _holds(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(actual.get(key) == value for key, value in wanted.items())
