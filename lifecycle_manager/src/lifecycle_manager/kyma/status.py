"""The status of a Kyma, from one snapshot: its conditions, and the state aggregated from all its parts."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from lifecycle_manager.contract.conditions import (
    BROKEN_AFTER_WORKING,
    CATALOG,
    CATALOG_SYNC_FAILED,
    CRDS_SYNC,
    DELETION_HELD,
    MODULES,
    MODULES_REMOVED,
    PUBLIC_REASONS,
    PULL_SECRET_SYNC,
    REACHABLE,
    WEBHOOK,
)
from lifecycle_manager.kyma import reasons
from lifecycle_manager.kyma.causes import (
    HIDDEN,
    MAX_CAUSES,
    MAX_MESSAGE_LENGTH,
    MAX_SUMMARY_LENGTH,
    Cause,
    format_causes,
    worst_first,
)
from lifecycle_manager.kyma.module_status import (
    ModuleReport,
    configured_module,
    module_report,
    modules_shown,
    reference_to,
    removed_module,
)
from lifecycle_manager.kyma.resolution import shown_channel
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.wanted import ApplyManifest, ModuleChange, WantedModules, chosen_manifests
from lifecycle_manager.object_set.reporting import READY, with_conditions
from lifecycle_manager.skr.brake import DELETION_STUCK
from lifecycle_manager.skr.failure import SkrFailure
from lifecycle_manager_api import (
    Condition,
    Kyma,
    KymaModuleStatus,
    KymaSpec,
    KymaStatus,
    SkrRecords,
    State,
    aggregate,
    find,
    names,
)
from lifecycle_manager_api.conditions import NewCondition, listed, shortened

OWN_CONDITIONS = frozenset({READY, MODULES, REACHABLE, CRDS_SYNC, PULL_SECRET_SYNC})
"""The others belong to other domains, each of which writes its own as a field manager of its own."""

_FAULTS = BROKEN_AFTER_WORKING | {CATALOG_SYNC_FAILED}
"""Reasons of other domains' conditions that make the Kyma a Warning."""
_UNDER_WAY = frozenset({"Syncing", "Removing"})
"""Reasons of the catalog's condition that say nothing about a failure."""
_FOR_EVER = timedelta(days=36_500)


class Shown(NamedTuple):
    """The status in KCP, and as the users of the SKR may read it: None where they read it already.

    `again` is when it may change by time alone.
    """

    in_kcp: KymaStatus
    in_skr: KymaStatus | None
    again: datetime | None


def status_of(snapshot: KymaSnapshot, wanted: WantedModules) -> Shown:
    """Return the status of a Kyma whose SKR was read. Conditions of other domains stay as they are."""
    reports = (
        *(module_report(snapshot, module) for module in wanted.modules),
        *(removed_module(snapshot, manifest) for manifest in wanted.removed),
        *(configured_module(snapshot, name) for name in wanted.configured),
    )
    of_others = (*_other_domains(snapshot.kyma.status.conditions), *_of_pull_secret(snapshot.pull_secret_condition))
    in_kcp = _status(snapshot, reports, of_others, wanted.ignored)
    for_users, others_for_users = ([each.for_users() for each in reports], [each.for_users() for each in of_others])
    in_skr = _dated_as(in_kcp, _status(snapshot, for_users, others_for_users, wanted.ignored))
    again = (module.resolution.again for module in wanted.modules)
    soonest = min((each for each in again if each is not None), default=None)
    inner = snapshot.skr.kyma if snapshot.skr is not None else None
    is_going = inner is not None and inner.metadata.being_deleted
    return Shown(in_kcp, None if is_going else _for_skr(snapshot, in_skr), soonest)


def _status(
    snapshot: KymaSnapshot, reports: Sequence[ModuleReport], of_others: Sequence[Cause], ignored: int
) -> KymaStatus:
    modules = tuple(report.shown for report in reports)
    requested = _requested(snapshot)
    pull_secret = snapshot.pull_secret_condition
    of_modules = [cause for report in reports for cause in report.causes_by_name]
    state = aggregate([*(module.state for module in modules), *(cause.state for cause in of_others)])
    unasked = {PULL_SECRET_SYNC} if pull_secret is None else set[str]()
    modules_ready, summary = _summary(modules, of_modules, ignored)
    others = format_causes(of_others, MAX_SUMMARY_LENGTH)
    message = others if modules_ready and of_others else summary
    is_held = any(each.reason == DELETION_HELD for each in of_modules)
    not_ready = DELETION_HELD if is_held else reasons.MODULES_NOT_READY
    conditions: tuple[NewCondition, ...] = (
        (REACHABLE, "True", reasons.REACHABLE, "the cluster answers"),
        _crds_sync(snapshot),
        *((pull_secret,) if pull_secret is not None else ()),
        (
            MODULES,
            "True" if modules_ready else "False",
            reasons.MODULES_READY if modules_ready else not_ready,
            summary,
        ),
        (READY, "True" if state is State.READY else "False", _reason(state, of_modules, of_others), message),
    )
    return with_conditions(
        snapshot.kyma.status,
        snapshot.kyma.metadata,
        snapshot.timing.now,
        state=state,
        modules=modules_shown(modules),
        active_channel=shown_channel(requested.channel),
        skip_maintenance_windows=requested.skip_maintenance_windows,
        dropped=unasked,
        records=msgspec.structs.replace(
            snapshot.kyma.status.records, kyma_crd=snapshot.crd.digest or snapshot.crd_in_skr
        ),
        conditions=conditions,
        operation=f"kyma is {state.value.lower()}: {message}",
    )


def _reason(state: State, of_modules: Sequence[Cause], of_others: Sequence[Cause]) -> str:
    """Return the reason of Ready: the kind of the worst cause, of modules before that of the Watcher or the catalog."""
    if state is State.READY:
        return reasons.READY
    worst = worst_first((*of_modules, *of_others))[0]
    return worst.reason if worst in of_others else f"Module{worst.state.value or State.PROCESSING.value}"


def failed_status(
    snapshot: KymaSnapshot, failure: SkrFailure, changes: Iterable[ModuleChange]
) -> tuple[KymaStatus, datetime | None]:
    """Return the status of a Kyma whose SKR could not be read, and when time alone makes it an Error.

    `changes` are those of modules that were made all the same.

    An SKR that does not answer makes the Kyma an Error after some time only. Until then the last known states of its
    modules stay, and then they are Errors too, except of those that are not managed.
    """
    left = snapshot.settings.timeouts.unreachable - _failing_for(snapshot, failure)
    is_over = left <= timedelta(0)
    modules = _with_manifests(snapshot, changes)
    if is_over and failure.is_without_access:
        message = shortened(failure.message, MAX_MESSAGE_LENGTH)
        modules = tuple(
            each if each.state is State.UNMANAGED else msgspec.structs.replace(each, state=State.ERROR, message=message)
            for each in modules
        )
    status = with_conditions(
        snapshot.kyma.status,
        snapshot.kyma.metadata,
        snapshot.timing.now,
        state=State.ERROR if is_over else snapshot.kyma.status.state or State.PROCESSING,
        modules=modules,
        conditions=(
            (REACHABLE, "False", failure.reason, failure.message),
            *(((CRDS_SYNC, "False", failure.reason, failure.message),) if snapshot.needs_crd else ()),
            (READY, "False", failure.reason, failure.message),
        ),
    )
    return status, None if is_over else snapshot.timing.now + left


def _with_manifests(snapshot: KymaSnapshot, changes: Iterable[ModuleChange]) -> tuple[KymaModuleStatus, ...]:
    """Return the last known states of the modules, with all Manifests: one that no Kyma names counts as orphaned."""
    known = snapshot.kyma.status.modules
    new = (change.manifest for change in changes if isinstance(change, ApplyManifest))
    manifests = snapshot.by_module((*new, *chosen_manifests(snapshot)))
    named = {each.name for each in known}
    unknown = (
        KymaModuleStatus(name=name, state=State.PROCESSING, version=each.spec.version, manifest=reference_to(each))
        for name, each in sorted(manifests.items())
        if name not in named
    )
    completed = (
        each if each.manifest else msgspec.structs.replace(each, manifest=reference_to(manifests.get(each.name)))
        for each in known
    )
    return modules_shown((*completed, *unknown))


def internal_error_status(kyma: Kyma, failure: SkrFailure, now: datetime) -> KymaStatus:
    """Return the status after an exception that nothing foresaw: only `Ready` and the state change."""
    return with_conditions(
        kyma.status,
        kyma.metadata,
        now,
        state=State.DELETING if kyma.metadata.being_deleted else State.ERROR,
        conditions=((READY, "False", failure.reason, failure.message),),
    )


def deleting_status(
    snapshot: KymaSnapshot, waits: Sequence[str], *, modules_removed: bool, reason: str = reasons.DELETING
) -> Shown:
    """Return the status of a Kyma that is being deleted, with what it waits for.

    Modules are listed as long as their Manifests exist.
    """
    message = f"waits for {listed(waits, MAX_CAUSES)}"
    stuck_at = snapshot.deletion_plus(snapshot.settings.timeouts.deletion)
    stuck = stuck_at is not None and stuck_at <= snapshot.timing.now
    removed: NewCondition = (MODULES, "False", MODULES_REMOVED, "all modules are removed")
    removing: NewCondition = (MODULES, "False", reasons.REMOVING, message)
    known = snapshot.by_module(chosen_manifests(snapshot))
    reports = [removed_module(snapshot, manifest) for _, manifest in sorted(known.items())]
    in_kcp = with_conditions(
        snapshot.kyma.status,
        snapshot.kyma.metadata,
        snapshot.timing.now,
        state=State.WARNING if stuck else State.DELETING,
        modules=tuple(each.shown for each in reports),
        conditions=(
            removed if modules_removed else removing,
            (READY, "False", DELETION_STUCK if stuck and reason == reasons.DELETING else reason, message),
        ),
    )
    in_skr = msgspec.structs.replace(in_kcp, modules=tuple(each.for_users().shown for each in reports))
    return Shown(in_kcp, _for_skr(snapshot, in_skr), stuck_at)


def _for_skr(snapshot: KymaSnapshot, status: KymaStatus) -> KymaStatus | None:
    """Return what is to be written in the SKR; None where it says so already, or can't be read."""
    if snapshot.skr is None or snapshot.skr.kyma is None or not snapshot.skr.is_readable:
        return None
    shown_there = for_skr(status, snapshot.skr.kyma)
    return shown_there if shown_there != snapshot.skr.kyma.status else None


def for_skr(status: KymaStatus, skr_kyma: Kyma) -> KymaStatus:
    """Return a status that users may read for the Kyma CR in the SKR, with the generations of that object.

    As upstream's, it names no Manifest, and the templates by their namespace in the SKR.
    """
    generation = skr_kyma.metadata.generation
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        modules=tuple(map(_module_for_skr, status.modules)),
        records=SkrRecords(),
        conditions=tuple(_condition_for_skr(condition, generation) for condition in status.conditions),
    )


def _module_for_skr(module: KymaModuleStatus) -> KymaModuleStatus:
    template = module.template
    if template is not None:
        metadata = msgspec.structs.replace(template.metadata, namespace=names.SKR_NAMESPACE)
        template = msgspec.structs.replace(template, metadata=metadata)
    return msgspec.structs.replace(module, manifest=None, template=template)


def _condition_for_skr(condition: Condition, generation: int) -> Condition:
    is_for_users = condition.type in {MODULES, READY}
    is_public = condition.status == "True" or is_for_users or condition.reason in PUBLIC_REASONS
    message = condition.message if is_public else HIDDEN
    return msgspec.structs.replace(condition, message=message, observed_generation=generation)


def _failing_for(snapshot: KymaSnapshot, failure: SkrFailure) -> timedelta:
    """Return how long a failure has lasted; one that needs a person counts as endless at once."""
    if not failure.may_pass:
        return _FOR_EVER
    known = find(snapshot.kyma.status.conditions, REACHABLE)
    if known is None or known.status == "True" or known.last_transition_time is None:
        return timedelta(0)
    return snapshot.timing.now - known.last_transition_time


def _requested(snapshot: KymaSnapshot) -> KymaSpec:
    """Return the spec that the modules are resolved by, of which the status in KCP tells others what they need."""
    skr_kyma = snapshot.skr.kyma if snapshot.skr is not None else None
    return (skr_kyma or snapshot.kyma).spec


def _other_domains(conditions: Sequence[Condition]) -> Iterator[Cause]:
    """Yield why the Watcher and the module catalog are not ready, where they are not."""
    for kind, pending, part in (
        (WEBHOOK, reasons.WATCHER_PENDING, "the Watcher"),
        (CATALOG, reasons.CATALOG_PENDING, "the module catalog"),
    ):
        condition = find(conditions, kind)
        if condition is None:
            yield Cause(State.PROCESSING, pending, f"waits for {part}")
        elif condition.status != "True":
            state = State.WARNING if condition.reason in _FAULTS else State.PROCESSING
            is_internal = condition.reason not in PUBLIC_REASONS
            yield Cause(state, condition.reason, condition.message, part, is_internal=is_internal)


def _of_pull_secret(condition: NewCondition | None) -> Iterator[Cause]:
    """Yield why the image pull Secret is not in the SKR, where it is not."""
    if condition is not None and condition[1] != "True":
        _, _, reason, message = condition
        yield Cause(State.WARNING, reason, message, "image pull Secret", is_internal=reason not in PUBLIC_REASONS)


def _crds_sync(snapshot: KymaSnapshot) -> NewCondition:
    """Return whether the SKR has the CRDs: that of Kymas, which it has by now, and those of the catalog.

    The catalog reports nothing about its objects before the CRDs are there.
    """
    known = find(snapshot.kyma.status.conditions, CRDS_SYNC)
    catalog = find(snapshot.kyma.status.conditions, CATALOG)
    was_synced = known is not None and known.status == "True"
    if was_synced or (catalog is not None and (catalog.status == "True" or catalog.reason == CATALOG_SYNC_FAILED)):
        return (CRDS_SYNC, "True", reasons.READY, "the cluster has the CRDs of Kymas and of the module catalog")
    if catalog is not None and catalog.reason not in _UNDER_WAY:
        return (CRDS_SYNC, "False", catalog.reason, catalog.message)
    return (CRDS_SYNC, "Unknown", reasons.CRDS_PENDING, "the CRDs of the module catalog are being applied")


def _summary(modules: Sequence[KymaModuleStatus], causes: Sequence[Cause], ignored: int) -> tuple[bool, str]:
    total = len(modules) + ignored
    ready = sum(module.state in {State.READY, State.UNMANAGED} for module in modules)
    if total == 0:
        return True, "no modules are enabled"
    count = f"{ready} of {total} module{'' if total == 1 else 's'} {'is' if 1 in {ready, total} else 'are'} ready"
    if ready == len(modules):
        return True, count
    return False, f"{count}; {format_causes(causes, MAX_SUMMARY_LENGTH)}"


def _dated_as(status: KymaStatus, other: KymaStatus) -> KymaStatus:
    """Return another text of one status with its times: a text that differs is no later operation."""
    operation, date = other.last_operation, status.last_operation
    if operation is None or date is None:
        return other
    dated = msgspec.structs.replace(operation, last_update_time=date.last_update_time)
    return msgspec.structs.replace(other, last_operation=dated)
