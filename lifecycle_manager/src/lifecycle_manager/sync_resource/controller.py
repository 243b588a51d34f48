"""The controller of SyncResources: its triggers.

A SyncResource is reconciled when

- its text changes, it is deleted, or its finalizer is removed
- objects that it waits for leave the inventory of another SyncResource
- its Kyma is deleted, no longer paused or has other modules, an operator continues its deletion, or the ModulePolicy of
  its module changes
- an event reports a change of one of its objects: that object is read, within the budget of its repairs
- its SKR answers again or is replaced, or all of it is to be read again
- the interval has passed: every object is read

Limits: three SyncResources of a cluster at once, the size of a status (`intent`), repairs of one object
(`object_set.repairs`), and what a ModulePolicy allows.
"""

from collections.abc import Callable, Iterable

from kube_runtime import Change, Controller, Index, Manager, ObjectKey, Priority
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, ObjectChanged, ResyncRequested
from lifecycle_manager.object_set import OwnerWrites, Policies, RecordingFailed
from lifecycle_manager.object_set.inventory import Identity, found_before, identities, inventory_of
from lifecycle_manager.object_set.ownership import claim_key
from lifecycle_manager.object_set.policy import module_of_policy, policy_changed
from lifecycle_manager.object_set.repairs import CONTESTED
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr import Connections, DeletionBrake, SkrAccessError, deletion_continued
from lifecycle_manager.sync_resource.apply import SyncResourceActions
from lifecycle_manager.sync_resource.plan import creates_namespaces, is_paused, plan
from lifecycle_manager.sync_resource.settings import SyncResourceSettings
from lifecycle_manager.sync_resource.snapshot import SYNC_RESOURCES_BY_CLAIM, SyncResourceReader, SyncResourceState
from lifecycle_manager.sync_resource.status import in_conflict, unreachable
from lifecycle_manager_api import Kyma, ModulePolicy, SyncResource, names

SYNC_RESOURCES_WAITING: Index[SyncResource] = Index(
    "waiting", lambda each: (each.spec.kyma,) if in_conflict(each) else ()
)
"""By their Kyma, the SyncResources that wait for objects that another one has."""


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
    controller.watches(sync_resources, to=waiting_for, when=lost_objects)
    controller.watches(kymas, to=of_changed_kyma, when=kyma_deletion_began)
    controller.watches(kymas, to=of_changed_kyma, when=pause_ended)
    controller.watches(kymas, to=of_changed_kyma, when=modules_added_or_removed)
    controller.watches(kymas, to=of_changed_kyma, when=deletion_continued)
    controller.watches(policies.informer, to=of_policy, when=policy_changed)
    controller.receives(ObjectChanged, to=of_object)
    controller.receives(ResyncRequested, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=lambda signal: of_kyma(signal.kyma), priority=Priority.CHANGE)
    writes = OwnerWrites(
        kcp=manager.client,
        events=manager.events,
        informer=sync_resources,
        finalizer=names.SYNC_RESOURCE_FINALIZER,
        action="Apply",
    )

    def found_by_others(resource: SyncResource) -> frozenset[Identity]:
        kyma, key = resource.spec.kyma, SYNC_RESOURCES.key_of(resource)
        of_modules = map(found_before, manifests.by_index(MANIFESTS_BY_KYMA, kyma))
        siblings = sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, kyma)
        return frozenset().union(*of_modules, *(found_before(x) for x in siblings if SYNC_RESOURCES.key_of(x) != key))

    reader = SyncResourceReader(
        sync_resources,
        kymas,
        policies,
        DeletionBrake.watched_by(manager, connections, settings.brake),
        manager.clock,
        settings.interval_seconds,
        settings.pull_secret,
        state_of=controller.state,
        contested=lambda resource, note: writes.record(resource, CONTESTED, note),
        manifests=manifests,
        max_per_module=settings.max_per_module,
        unprotected=unprotected,
    )
    actions = SyncResourceActions(
        writes=writes,
        connections=connections,
        clock=manager.clock,
        unreachable=unreachable,
        found_by_others=found_by_others,
        latency=latency,
        publish=manager.publish,
    )
    controller.steps(
        read=reader.read,
        plan=plan,
        apply=actions.apply,
        finish=actions.finish,
        unforeseen=actions.report,
        outcomes=(RecordingFailed,),
    )
    return controller


def spec_changed(change: Change[SyncResource]) -> bool:
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or generation_changed(change)
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or creates_namespaces(old) != creates_namespaces(new)
        or finalizer_removed(names.SYNC_RESOURCE_FINALIZER, change)
    )


def lost_objects(change: Change[SyncResource]) -> bool:
    """Tell whether objects left the inventory of a SyncResource, so that another one may take them."""
    old, new = change.old, change.new
    return new is None or (old is not None and bool(identities(inventory_of(old)) - identities(inventory_of(new))))


def kyma_deletion_began(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma is deleted, or was marked for deletion."""
    old, new = change.old, change.new
    return new is None or (new.metadata.being_deleted and (old is None or not old.metadata.being_deleted))


def modules_added_or_removed(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma has other modules than before."""
    old, new = ({each.name for each in kyma.status.modules} if kyma else set() for kyma in (change.old, change.new))
    return old != new


def pause_ended(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma is no longer paused: what waited is carried out."""
    return is_paused(change.old) and not is_paused(change.new)
