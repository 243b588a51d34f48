"""The controller of the status of Module CRs: one key for each ModuleConfig."""

from collections.abc import Iterable
from dataclasses import dataclass

from kube_runtime import (
    Causes,
    Change,
    Controller,
    EventRecorder,
    Index,
    Informer,
    Manager,
    ObjectKey,
    Priority,
    Result,
)
from kube_runtime.clock import Clock
from kube_runtime.steps import run_steps
from lifecycle_manager.contract.changes import generation_changed
from lifecycle_manager.contract.indexes import MODULE_CONFIGS_BY_KYMA
from lifecycle_manager.contract.options import Count, config_concurrency_option
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, SyncResourceApplied
from lifecycle_manager.contract.verdict import config_of, verdict_of
from lifecycle_manager.module_cr_status.apply import Memory, ModuleCrState, Steps
from lifecycle_manager.module_cr_status.plan import is_done, is_settled, plan
from lifecycle_manager.module_cr_status.schema import StatusSchemas
from lifecycle_manager.module_cr_status.snapshot import Snapshot
from lifecycle_manager.module_cr_status.status import NOT_WRITTEN
from lifecycle_manager.object_set import Policies
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager.skr import Connections, SkrAccessError, failure_of
from lifecycle_manager_api import ModuleConfig, SyncResource

SYNC_RESOURCES_BY_CONFIG: Index[SyncResource] = Index("config", lambda resource: (config_of(resource),))
"""SyncResources by the name of the ModuleConfig that they were made from."""


@dataclass(frozen=True, slots=True)
class ModuleCrStatusSettings:
    """The settings of the domain."""

    concurrency: Count = config_concurrency_option()


def setup(
    manager: Manager, connections: Connections, settings: ModuleCrStatusSettings
) -> Controller[ObjectKey, ModuleCrState]:
    """Add the controller of the status of Module CRs; its keys are those of the ModuleConfigs."""
    configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA])
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_CONFIG])
    policies = Policies.watched_by(manager)

    def owner(key: ObjectKey) -> str:
        config = configs.get(key)
        return config.spec.kyma if config is not None else ""

    def of_kyma(signal: ClusterReachable | ClusterReplaced) -> Iterable[ObjectKey]:
        return map(MODULE_CONFIGS.key_of, configs.by_index(MODULE_CONFIGS_BY_KYMA, signal.kyma))

    controller = manager.controller(
        "module-cr-status",
        state=ModuleCrState,
        owner=owner,
        concurrency=settings.concurrency,
        max_per_owner=3,
        timeout_seconds=30.0,
        not_retried=(SkrAccessError,),
    )
    controller.watches(configs, when=status_changed)
    controller.watches(sync_resources, to=lambda change: made_from(change.old, change.new), when=application_changed)
    controller.receives(SyncResourceApplied, to=lambda signal: made_from(signal.resource), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=of_kyma, priority=Priority.RESYNC)
    controller.receives(ClusterReplaced, to=of_kyma, priority=Priority.RESYNC)
    schemas = StatusSchemas(manager.clock)
    reconciler = ModuleCrStatusReconciler(
        configs,
        sync_resources,
        policies,
        connections,
        schemas=schemas,
        events=manager.events,
        clock=manager.clock,
    )
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report)
    return controller


def status_changed(change: Change[ModuleConfig]) -> bool:
    """Tell whether another version of the Module CR was read, or there is another answer to it."""
    old, new = change.old, change.new
    return old is None or new is None or generation_changed(change) or old.status != new.status


def application_changed(change: Change[SyncResource]) -> bool:
    """Tell whether what was made of a Module CR has another status, or is being deleted."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.status != new.status
        or old.metadata.being_deleted != new.metadata.being_deleted
    )


def made_from(*resources: SyncResource | None) -> Iterable[ObjectKey]:
    """Return the keys of the ModuleConfigs that SyncResources were made from."""
    return {ObjectKey(each.metadata.namespace, config_of(each)) for each in resources if each is not None}


@dataclass(frozen=True, eq=False)
class ModuleCrStatusReconciler:
    """Keeps the status of one Module CR equal to what its user has to know."""

    configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    policies: Policies
    connections: Connections
    schemas: StatusSchemas
    events: EventRecorder
    clock: Clock

    async def reconcile(self, key: ObjectKey, causes: Causes, state: ModuleCrState) -> Result:
        """Take the steps of a Module CR's plan. Raises KubeError or SkrAccessError."""
        config = self.configs.get(key)
        if config is None or not self.policies.is_in_place(config):
            return Result()
        uid = config.spec.resource_ref.uid if config.spec.resource_ref is not None else ""
        if uid != state.memory.uid or causes.of(ClusterReplaced):
            state.memory = Memory(uid)
        if causes.of(ClusterReachable):
            state.memory.unsettled_since = None
        async with LazySkrClient(self.connections, config.spec.kyma) as skr:
            steps = Steps(config, state.memory, self.schemas, self.events, skr)
            seen = self._snapshot(config, state.memory, self._resources(config, causes))
            done = await run_steps(seen, plan=plan, apply=steps.apply, is_done=is_done)
        return Result(requeue_after=done.requeue_after)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception."""
        config = self.configs.get(key)
        if config is not None:
            note = failure_of(error).message
            self.events.record(MODULE_CONFIGS, config, NOT_WRITTEN, note, type="Warning", action="WriteStatus")

    def _resources(self, config: ModuleConfig, causes: Causes) -> Iterable[SyncResource]:
        """Return the SyncResources of a ModuleConfig: as they are in KCP, or about to be."""
        applied = {each.resource.metadata.uid: each.resource for each in causes.of(SyncResourceApplied)}
        for each in self.sync_resources.by_index(SYNC_RESOURCES_BY_CONFIG, config.metadata.name):
            newest = applied.get(each.metadata.uid, each)
            yield newest if newest.metadata.generation == each.metadata.generation else each

    def _snapshot(self, config: ModuleConfig, memory: Memory, resources: Iterable[SyncResource]) -> Snapshot:
        verdict = verdict_of(config, resources)
        reference, seconds = config.spec.resource_ref, self.clock.monotonic()
        if is_settled(verdict):
            memory.unsettled_since = None
        elif memory.unsettled_since is None:
            memory.unsettled_since = seconds
        return Snapshot(
            reference,
            verdict,
            self.clock.now(),
            seconds,
            schema=self.schemas.known(config.spec.kyma, reference.api_version, reference.kind) if reference else None,
            written=memory.written,
            unsettled_since=memory.unsettled_since,
            last_event=memory.last_event,
            last_event_at=memory.last_event_at,
            refused=memory.refused,
            module_status_refused=memory.module_status_refused == verdict.status,
            is_left_alone=memory.is_left_alone,
        )
