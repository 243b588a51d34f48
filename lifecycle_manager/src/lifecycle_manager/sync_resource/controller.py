"""The controller of SyncResources: what triggers a reconcile, and what a reconcile does.

A SyncResource is reconciled when

- its text changes, it is deleted, or its finalizer is removed
- objects that it waits for leave the inventory of a Manifest or another SyncResource
- its Kyma is deleted, no longer paused or has other modules, an operator continues its deletion, or the ModulePolicy of
  its module changes
- an event reports a change of one of its objects: that object is read, within the budget of its repairs
- its SKR answers again or is replaced, or all of it is to be read again
- modules are kept apart again, and it was refused as they were not
- the interval has passed: every object is read

Limits: three SyncResources of a cluster at once, the size of a status (`status`), repairs of one object
(`object_set.repairs`), and what a ModulePolicy allows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import structlog

from kube_runtime import (
    Causes,
    Change,
    Controller,
    Forbidden,
    Index,
    Informer,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Request,
    RequestTooLarge,
    Result,
)
from lifecycle_manager.contract.conditions import APPLIED
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    ModulesProtected,
    ObjectChanged,
    ResyncRequested,
    SyncResourceApplied,
)
from lifecycle_manager.contract.verdict import CONFLICT, TEXT_TOO_LARGE, TOO_MANY_OBJECTS
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest
from lifecycle_manager.object_set.engine import ObjectSet, SetEngine
from lifecycle_manager.object_set.inventory import (
    among,
    identities,
    inventory_of,
    without,
)
from lifecycle_manager.object_set.others import OtherSets
from lifecycle_manager.object_set.owner_writes import OwnerWrites, RecordingFailed
from lifecycle_manager.object_set.ownership import claim_key
from lifecycle_manager.object_set.policy import Policies, module_of_policy, policy_changed
from lifecycle_manager.object_set.repairs import CONTESTED, seen_in
from lifecycle_manager.object_set.reporting import SetReport
from lifecycle_manager.object_set.rules import held_back, left_by_policy
from lifecycle_manager.options.configuration import SyncResourceSettings
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.brake import DeletionBrake, Hold, deletion_continued
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager.sync_resource import rules
from lifecycle_manager.sync_resource import status as statuses
from lifecycle_manager.sync_resource.changes import (
    changed_by_manager_alone,
    changed_for_user,
    kyma_deletion_began,
    lost_objects,
    modules_added_or_removed,
    observed_at_of,
    pause_ended,
)
from lifecycle_manager.sync_resource.rules import IN_USE_SECONDS, READINESS_SECONDS
from lifecycle_manager.sync_resource.snapshot import (
    SYNC_RESOURCES_BY_CLAIM,
    SyncResourceReader,
    SyncResourceSnapshot,
    SyncResourceState,
)
from lifecycle_manager.sync_resource.status import NOT_PROTECTED, Refusal, TooManyObjects, is_refused
from lifecycle_manager_api import Kyma, Manifest, ModulePolicy, State, SyncResource, find, names

log = structlog.get_logger("sync_resource")
SYNC_RESOURCES_WAITING: Index[SyncResource] = Index(
    "waiting", lambda each: (each.spec.kyma,) if is_refused(each, CONFLICT) else ()
)
"""By their Kyma, the SyncResources that wait for objects that others have."""


def setup(
    manager: Manager,
    connections: Connections,
    latency: ChangeLatency,
    settings: SyncResourceSettings,
    unprotected: Callable[[], str | None] = lambda: "",
) -> Controller[ObjectKey, SyncResourceState]:
    """Declare the controller. `unprotected` says why modules are not kept apart, if so; None where that is unknown."""
    sync_resources = manager.informer(
        SYNC_RESOURCES,
        namespace=None,
        indexes=[SYNC_RESOURCES_BY_KYMA, SYNC_RESOURCES_BY_CLAIM, SYNC_RESOURCES_WAITING],
    )
    configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA])
    kymas = manager.informer(KYMAS, namespace=names.KCP_NAMESPACE)
    manifests = manager.informer(MANIFESTS, namespace=names.KCP_NAMESPACE, indexes=[MANIFESTS_BY_KYMA])
    policies = Policies.watched_by(manager)

    def owner(key: ObjectKey) -> str:
        resource = sync_resources.get(key)
        return resource.spec.kyma if resource is not None else ""

    def of_kyma(name: str) -> Iterable[ObjectKey]:
        return map(SYNC_RESOURCES.key_of, sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, name))

    def of_changed_kyma(change: Change[Kyma]) -> Iterable[ObjectKey]:
        kyma = change.new or change.old
        return of_kyma(kyma.metadata.name) if kyma is not None else ()

    def of_policy(change: Change[ModulePolicy]) -> Iterable[ObjectKey]:
        module = module_of_policy(change)
        return [SYNC_RESOURCES.key_of(each) for each in sync_resources.list() if each.spec.module == module]

    def of_object(change: ObjectChanged) -> Iterable[ObjectKey]:
        claim = claim_key(change.kyma, change.reference.group, change.reference.kind, change.reference.name)
        found = sync_resources.by_index(SYNC_RESOURCES_BY_CLAIM, claim)
        has_it = (each for each in found if change.reference in identities(inventory_of(each)))
        return map(SYNC_RESOURCES.key_of, has_it)

    controller = manager.controller(
        "sync-resource",
        state=SyncResourceState,
        owner=owner,
        concurrency=settings.concurrency,
        max_per_owner=3,
        not_retried=(SkrAccessError,),
    )
    controller.watches(sync_resources, when=partial(changed_for_user, configs), priority=Priority.EVENT)
    controller.watches(sync_resources, when=partial(changed_by_manager_alone, configs))
    controller.watches(sync_resources, to=partial(waiting_for, sync_resources), when=lost_objects)
    controller.watches(manifests, to=partial(waiting_for, sync_resources), when=lost_objects)
    controller.watches(kymas, to=of_changed_kyma, when=kyma_deletion_began)
    controller.watches(kymas, to=of_changed_kyma, when=pause_ended)
    controller.watches(kymas, to=of_changed_kyma, when=modules_added_or_removed)
    controller.watches(kymas, to=of_changed_kyma, when=deletion_continued)
    controller.watches(policies.informer, to=of_policy, when=policy_changed)
    controller.receives(ObjectChanged, to=of_object)
    controller.receives(ResyncRequested, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ModulesProtected, to=partial(refused_as_unprotected, sync_resources), priority=Priority.CHANGE)
    writes = OwnerWrites.of_sync_resources(manager, sync_resources)
    reader = SyncResourceReader(
        sync_resources,
        kymas,
        policies,
        DeletionBrake.watched_by(manager, connections, settings.brake),
        manager.clock,
        settings,
        state_of=controller.state,
        contested=lambda resource, note: writes.record(resource, CONTESTED, note),
        manifests=manifests,
        unprotected=unprotected,
    )
    engine = SyncResourceEngine(
        writes=writes,
        connections=connections,
        clock=manager.clock,
        unreachable=statuses.unreachable,
        other_sets=OtherSets(manifests, writes, configs, policies),
        reader=reader,
        latency=latency,
        publish=manager.publish,
    )
    controller.reconciles(engine.reconcile, unforeseen=engine.report_unforeseen)
    return controller


@dataclass(frozen=True, eq=False, kw_only=True)
class SyncResourceEngine(SetEngine[SyncResource]):
    """Keeps the objects of SyncResources in their SKRs as the Module Managers want them."""

    reader: SyncResourceReader
    latency: ChangeLatency
    publish: Callable[[object], int]

    async def reconcile(self, key: ObjectKey, causes: Causes, state: SyncResourceState) -> Result:
        """Bring the objects to the SKR, or remove them there, and write the status. Raises what failed."""
        async with Request(key, state, causes) as request:
            seen = await self.reader.read(request)
            if seen is None:
                return Result()
            objects = ObjectSet(self, request, seen)
            try:
                report = await self._carry_out(seen, objects)
            except RecordingFailed:
                raise  # nothing is applied that is not recorded, and there is no status to write
            except TooManyObjects as error:
                report = stopped(seen, objects.resource, Refusal(TOO_MANY_OBJECTS, str(error)))
            except (KubeError, SkrAccessError) as error:
                status = statuses.unreachable(objects.resource, failure_of(error), seen.now)
                report = SetReport(status=status, error=error)
            result = await self._finish(seen, objects, report)
        if report is not None and report.error is not None:
            raise report.error
        return result

    async def _carry_out(self, seen: SyncResourceSnapshot, objects: ObjectSet[SyncResource]) -> SetReport | None:
        """Do what is to be done in the SKR; return what to report, None where the finalizer is to be removed."""
        if (obstacle := rules.obstacle(seen)) is not None:
            return stopped(seen, objects.resource, obstacle)
        if seen.resource.metadata.being_deleted:
            return await self._remove(seen, objects)
        if (refusal := rules.objection(seen)) is not None:
            return stopped(seen, objects.resource, refusal)
        await objects.resolve(seen.objects, applied=find(seen.resource.status.conditions, APPLIED))
        if (refusal := rules.objection(seen, objects.wanted)) is not None:
            return stopped(seen, objects.resource, refusal)
        await objects.record_intent(statuses.begun)
        applied = await objects.apply(
            seen.objects,
            objects.intended,
            recheck=rules.recheck(seen),
            namespaces=rules.namespaces(seen, objects.wanted),
        )
        if prunes := seen.resource.spec.prune:
            applied = await objects.prune(applied)
        workloads = await objects.readiness_of(rules.waiting_workloads(applied))
        left = left_by_policy(applied, seen.rules) if prunes else ()
        status = statuses.applied(objects.resource, applied, seen.now, left, workloads, found=objects.found)
        is_settled = status.state is State.READY or left or applied.held
        return SetReport(
            status=status,
            requeue_after=seen.interval_seconds if is_settled else READINESS_SECONDS,
            applied=applied,
            shown=seen_in(applied.outcomes),
            error=applied.first_failure,
        )

    async def _remove(self, seen: SyncResourceSnapshot, objects: ObjectSet[SyncResource]) -> SetReport | None:
        """Delete the objects; return what to report, None where nothing is left that the finalizer waits for."""
        if rules.is_forgotten(seen):
            return None
        if seen.brake.hold is not None:
            return stopped(seen, objects.resource, seen.brake.hold)
        if found := among(objects.inventory, objects.found):
            await objects.release_found(found)
        held, violations = held_back(objects.inventory, seen.rules)
        if rules.is_kept(seen):
            await objects.pass_on(without(objects.inventory, held))
        if entries := without(objects.inventory, held):
            removed = await objects.delete(entries)
            if removed.inventory:
                status = statuses.deleting(objects.resource, removed, seen.now, held)
                pause = IN_USE_SECONDS if removed.held else READINESS_SECONDS
                return SetReport(status=status, requeue_after=pause, error=removed.first_failure)
        if held and rules.is_kept(seen):
            status = statuses.holding(objects.resource, held, violations, seen.now)
            return SetReport(status=status, requeue_after=seen.interval_seconds)
        return None

    async def _finish(
        self, seen: SyncResourceSnapshot, objects: ObjectSet[SyncResource], report: SetReport | None
    ) -> Result:
        """Write the status or remove the finalizer; return when to reconcile again. Raises KubeError."""
        try:
            if report is None:
                await self.writes.remove_finalizer(objects.resource)
                return Result()
            return await self._report(seen, objects, report)
        except RequestTooLarge:
            self.writes.record(objects.resource, TEXT_TOO_LARGE, "its text leaves no room for its status; split it")
        except Forbidden as error:
            if not seen.is_misplaced:
                raise
            # In a namespace of no module the Lifecycle Manager need not have rights, not even to write the refusal.
            log.warning("SyncResource in the wrong namespace", key=str(objects.request.key), error=str(error))
        return Result(requeue_after=seen.interval_seconds)

    async def _report(self, seen: SyncResourceSnapshot, objects: ObjectSet[SyncResource], report: SetReport) -> Result:
        resource, state, applied = objects.resource, objects.request.state, report.applied
        status = msgspec.structs.replace(report.status, emptied_at=seen.emptied_at)
        report = replace(report, status=status)
        if report.requeue_after is None:  # it has failed: what was known stays known
            return await objects.report(report)
        if applied is None:
            state.remember(set(state.inventory) - report.lost)
        elif applied.changed:
            self._report_change(resource, Counter(str(each.action) for each in applied.outcomes))
        if status != resource.status:
            self.publish(SyncResourceApplied(msgspec.structs.replace(resource, status=status)))
        now = self.clock.monotonic()
        due = now + report.requeue_after
        check_due = due if seen.announced is None else min(due, state.check_due)
        result = await objects.report(replace(report, requeue_after=max(0.0, check_due - now)))
        state.check_due = check_due
        return result

    def _report_change(self, resource: SyncResource, objects: Mapping[str, int]) -> None:
        observed_at = observed_at_of(resource)
        self.latency.sync_resource_applied(observed_at)
        log.info(
            "sync resource applied",
            kyma=resource.spec.kyma,
            module=resource.spec.module,
            name=resource.metadata.name,
            generation=resource.metadata.generation,
            traceparent=resource.metadata.annotations.get(names.TRACEPARENT, ""),
            observed_at=observed_at,
            objects=dict(objects),
        )


def stopped(seen: SyncResourceSnapshot, resource: SyncResource, obstacle: float | Refusal | Hold) -> SetReport:
    """Return what to report where the objects stay as they are."""
    match obstacle:
        case Refusal(lost=lost):
            status = statuses.refused(resource, obstacle, seen.now)
            return SetReport(status=status, requeue_after=seen.interval_seconds, lost=lost)
        case Hold(seconds=seconds):
            return SetReport(status=statuses.braked(resource, obstacle, seen.now), requeue_after=seconds)
        case _:
            return SetReport(status=resource.status, requeue_after=obstacle)


def waiting_for(
    sync_resources: Informer[SyncResource], change: Change[SyncResource] | Change[Manifest]
) -> Iterable[ObjectKey]:
    """Return the SyncResources of the same Kyma that wait for objects."""
    changed = change.new or change.old
    if changed is None:
        return ()
    kyma = changed.spec.kyma if isinstance(changed, SyncResource) else kyma_of_manifest(changed)
    return map(SYNC_RESOURCES.key_of, sync_resources.by_index(SYNC_RESOURCES_WAITING, kyma))


def refused_as_unprotected(sync_resources: Informer[SyncResource], _: ModulesProtected) -> Iterable[ObjectKey]:
    """Return the SyncResources that were refused as modules were not kept apart."""
    return [SYNC_RESOURCES.key_of(each) for each in sync_resources.list() if is_refused(each, NOT_PROTECTED)]
