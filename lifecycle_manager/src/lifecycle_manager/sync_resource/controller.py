"""The controller of SyncResources: settings, triggers, and one reconcile from snapshot to status."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

import msgspec
import structlog

from kube_runtime import (
    Causes,
    Change,
    Client,
    Clock,
    Controller,
    EventRecorder,
    Forbidden,
    Index,
    Informer,
    Manager,
    ObjectKey,
    Priority,
    Result,
    parse_aside,
)
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed
from lifecycle_manager.contract.indexes import SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.options import Count, Seconds, SecretName, option, pull_secret_option
from lifecycle_manager.contract.resources import KYMAS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    ObjectChanged,
    ResyncRequested,
    SyncResourceApplied,
)
from lifecycle_manager.object_set import Record, RecordingFailed
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager.object_set.inventory import Identity, identities, without
from lifecycle_manager.object_set.ownership import Claim, Place, by_place, claim_key, claimed_earlier, place_of
from lifecycle_manager.object_set.policy import Policies, module_of_policy, policy_changed
from lifecycle_manager.object_set.repairs import CONTESTED, seen_in
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr import Connections, ObservedObject, SkrAccessError, SkrFailure, failure_of
from lifecycle_manager.sync_resource import status as statuses
from lifecycle_manager.sync_resource.apply import Steps, SyncResourceState
from lifecycle_manager.sync_resource.intent import claim_index, inventory_of
from lifecycle_manager.sync_resource.plan import Done, creates_namespaces, is_paused, plan
from lifecycle_manager.sync_resource.snapshot import (
    Snapshot,
    Text,
    known_inventory,
    read_text,
    since,
)
from lifecycle_manager.sync_resource.status import in_conflict
from lifecycle_manager_api import Kyma, ModulePolicy, SyncResource, SyncResourceStatus, names

log = structlog.get_logger("sync_resource")

SYNC_RESOURCES_BY_CLAIM: Index[SyncResource] = Index("claim", claim_index)
"""SyncResources by the objects that they have in their SKR, or may have."""
SYNC_RESOURCES_WAITING: Index[SyncResource] = Index(
    "waiting", lambda each: (each.spec.kyma,) if in_conflict(each) else ()
)

"""By their Kyma, the SyncResources that wait for objects that another one has."""


@dataclass(frozen=True, slots=True)
class SyncResourceSettings:
    """Options of this controller. `pull_secret`: the name of the image pull Secret."""

    interval_seconds: Seconds = option(
        120.0,
        "sync-resource-requeue-success-interval",
        "interval at which the objects of a SyncResource are reconciled without an event",
    )
    pull_secret: SecretName = pull_secret_option()
    concurrency: Count = option(50, "max-concurrent-sync-resource-reconciles", "concurrent reconciles of SyncResources")


def setup(
    manager: Manager, connections: Connections, latency: ChangeLatency, settings: SyncResourceSettings
) -> Controller[ObjectKey, SyncResourceState]:
    """Declare the controller with all that triggers it."""
    sync_resources = manager.informer(
        SYNC_RESOURCES,
        namespace=None,
        indexes=[SYNC_RESOURCES_BY_KYMA, SYNC_RESOURCES_BY_CLAIM, SYNC_RESOURCES_WAITING],
    )
    kymas = manager.informer(KYMAS, namespace=names.KCP_NAMESPACE)
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

    def waiting_for(change: Change[SyncResource]) -> Iterable[ObjectKey]:
        changed = change.new or change.old
        others = sync_resources.by_index(SYNC_RESOURCES_WAITING, changed.spec.kyma) if changed is not None else ()
        return map(SYNC_RESOURCES.key_of, others)

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
    controller.watches(sync_resources, when=spec_changed)
    controller.watches(sync_resources, to=waiting_for, when=gives_up_objects)
    controller.watches(kymas, to=of_changed_kyma, when=kyma_is_leaving)
    controller.watches(kymas, to=of_changed_kyma, when=pause_ended)
    controller.watches(policies.informer, to=of_policy, when=policy_changed)
    controller.receives(ObjectChanged, to=of_object)
    controller.receives(ResyncRequested, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    reconciler = SyncResourceReconciler(
        manager.client,
        manager.clock,
        manager.events,
        connections,
        latency,
        settings,
        kymas=kymas,
        sync_resources=sync_resources,
        policies=policies,
        state_of=controller.state,
        publish=manager.publish,
    )
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report, foreseen=(RecordingFailed,))
    return controller


def spec_changed(change: Change[SyncResource]) -> bool:
    """Tell whether more than the status of a SyncResource changed."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or generation_changed(change)
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or creates_namespaces(old) != creates_namespaces(new)
        or finalizer_removed(names.SYNC_RESOURCE_FINALIZER, change)
    )


def gives_up_objects(change: Change[SyncResource]) -> bool:
    """Tell whether a SyncResource gave up objects that another one may want."""
    old, new = change.old, change.new
    return new is None or (old is not None and bool(identities(inventory_of(old)) - identities(inventory_of(new))))


def kyma_is_leaving(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma is deleted, or was marked for deletion."""
    old, new = change.old, change.new
    return new is None or (new.metadata.being_deleted and (old is None or not old.metadata.being_deleted))


def pause_ended(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma is no longer paused: what waited is carried out."""
    return is_paused(change.old) and not is_paused(change.new)


@dataclass(frozen=True, eq=False)
class SyncResourceReconciler:
    """Keeps the objects of one SyncResource in its SKR as the Module Manager wants them."""

    kcp: Client
    clock: Clock
    events: EventRecorder
    connections: Connections
    latency: ChangeLatency
    settings: SyncResourceSettings
    kymas: Informer[Kyma] = field(kw_only=True)
    sync_resources: Informer[SyncResource] = field(kw_only=True)
    policies: Policies = field(kw_only=True)
    state_of: Callable[[ObjectKey], SyncResourceState | None] = field(kw_only=True)
    publish: Callable[[object], int] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, causes: Causes, state: SyncResourceState) -> Result:
        """Take the steps of a SyncResource's plan. Raises KubeError or SkrAccessError after its status says so."""
        resource = self.sync_resources.get(key)
        if resource is None:
            return Result()

        record = self._record(resource)
        skr = LazySkrClient(self.connections, resource.spec.kyma)
        announced = self._note(causes, resource, state)
        steps, seen = Steps(record, state, skr), await self._snapshot(key, resource, state, announced)
        try:
            end = await record.take_steps(seen, skr, plan=plan, apply=steps.apply, unreachable=self._failed)
            if isinstance(end, Done):
                return await self._finish(record, state, end, checked_all=announced is None)
            await record.remove_finalizer()
        except Forbidden as error:
            if not seen.is_misplaced:
                raise
            # In a namespace of no module the Lifecycle Manager need not have rights, not even to write the refusal.
            log.warning("SyncResource in the wrong namespace", key=str(key), error=str(error))
            return Result(requeue_after=self.settings.interval_seconds)
        return Result()

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        resource = self.sync_resources.get(key)
        if resource is not None:
            await self._record(resource).report(self._failed(resource, failure_of(error)))

    def _record(self, resource: SyncResource) -> Record[SyncResource]:
        finalizer = names.SYNC_RESOURCE_FINALIZER
        return Record(self.kcp, self.events, self.sync_resources, resource, finalizer=finalizer, action="Apply")

    def _failed(self, resource: SyncResource, failure: SkrFailure) -> SyncResourceStatus:
        return statuses.unreachable(resource, failure.reason, failure.message, self.clock.now())

    def _note(self, causes: Causes, resource: SyncResource, state: SyncResourceState) -> frozenset[Identity] | None:
        """Note what events reported; return the objects to read because of that, None where all are to be read."""
        changes, now = causes.of(ObjectChanged), self.clock.monotonic()
        everything = causes.overflowed or len(changes) < len(causes) or now >= state.check_due
        has = identities(known_inventory(resource, state.inventory)) if changes else frozenset()
        for change in changes:
            if change.reference not in has:
                continue
            if not state.repairs.grants(change, now):
                note = state.repairs.contested(change)
                self.events.record(SYNC_RESOURCES, resource, CONTESTED, note, type="Warning", action="Apply")
            elif not state.announcements.announce(change, now=now):
                everything = True
        announced = frozenset(each.object for each in state.announcements.of())
        return None if everything or not (changes or announced) else announced

    async def _snapshot(
        self,
        key: ObjectKey,
        resource: SyncResource,
        state: SyncResourceState,
        announced: frozenset[Identity] | None,
    ) -> Snapshot:
        kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, resource.spec.kyma))
        module = resource.spec.module
        namespace = self.policies.namespace_of(module)
        is_in_place = resource.metadata.namespace == namespace  # decided once, before the first await
        text: Text = ()
        if kyma is not None and not resource.metadata.being_deleted and is_in_place:
            written = resource.spec.resource
            text = await parse_aside(len(written), read_text, written)
        known = known_inventory(resource, state.inventory) if is_in_place else ()
        places = {*by_place(known), *(map(place_of, text) if isinstance(text, tuple) else ())}
        claims = tuple(dict.fromkeys(self._claims(key, resource.spec.kyma, places)))
        inventory = without(known, claimed_earlier(known, since(resource), claims))
        return Snapshot(
            resource,
            kyma,
            self.clock.now(),
            inventory,
            text,
            rules=self.policies.of_sync_resources(module),
            claims=claims,
            interval_seconds=self.settings.interval_seconds,
            pull_secret=self.settings.pull_secret,
            announced=announced,
            module_namespace=namespace,
        )

    def _claims(self, key: ObjectKey, kyma: str, places: Set[Place]) -> Iterable[Claim]:
        """Return the claims of other SyncResources of this Kyma to objects: recorded ones, and those of their state.

        A SyncResource outside the namespace of its module claims nothing.
        """

        def claims(other: SyncResource) -> bool:
            return SYNC_RESOURCES.key_of(other) != key and self.policies.is_in_place(other)

        for place in places:
            for other in self.sync_resources.by_index(SYNC_RESOURCES_BY_CLAIM, claim_key(kyma, *place)):
                if claims(other):
                    found = (each for each in inventory_of(other) if (each.group, each.kind, each.name) == place)
                    yield from (Claim(entry, *since(other)) for entry in found)
        for other in self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, kyma) if places else ():
            state = self.state_of(SYNC_RESOURCES.key_of(other))
            if state is None or not (common := state.claims.keys() & places):
                continue
            if claims(other):
                yield from (Claim(entry, *since(other)) for place in common for entry in state.claims[place])

    async def _finish(
        self, record: Record[SyncResource], state: SyncResourceState, end: Done, *, checked_all: bool
    ) -> Result:
        if end.result is None:
            state.remember(set(state.inventory) - end.lost)
        elif end.result.changed:
            self._report_change(record.item, Counter(str(each.action) for each in end.result.outcomes))
        if end.status != record.item.status:
            self.publish(SyncResourceApplied(msgspec.structs.replace(record.item, status=end.status)))
        await record.report(end.status)
        now, wait = self.clock.monotonic(), None
        due = now + end.requeue_after
        state.check_due = due if checked_all else min(due, state.check_due)
        if end.result is not None:
            end.result.raise_first_failure()
            state.repairs.remember(end.result.outcomes)
            shown = seen_in(end.result.outcomes)
            read = {each: shown.get(each.object, ObservedObject()) for each in state.announcements.of()}
            wait = state.announcements.settle(read, now=now)
        return Result(requeue_after=max(0.0, state.check_due - now) if wait is None else wait)

    def _report_change(self, resource: SyncResource, objects: Mapping[str, int]) -> None:
        observed_at = resource.metadata.annotations.get(names.OBSERVED_AT, "")
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
