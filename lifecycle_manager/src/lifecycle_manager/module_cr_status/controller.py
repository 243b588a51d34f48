"""The controller of the status of Module CRs: one key for each ModuleConfig.

A status is reconciled when

- another version of the Module CR was read, or the Module Manager has answered to it
- what was made of it is applied, or has another status
- its ModuleConfig is deleted, as the last one that was read says
- its SKR answers again, or is replaced
- a change is on its way for longer than the limits in `plan`
"""

from collections.abc import Iterable

from kube_runtime import Change, Controller, Manager, ObjectKey, Priority
from lifecycle_manager.contract.changes import generation_changed, versions
from lifecycle_manager.contract.indexes import MODULE_CONFIGS_BY_KYMA
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, SyncResourceApplied
from lifecycle_manager.contract.verdict import config_of
from lifecycle_manager.module_cr_status.apply import ModuleCrActions
from lifecycle_manager.module_cr_status.plan import plan
from lifecycle_manager.module_cr_status.schema import StatusSchemas
from lifecycle_manager.module_cr_status.snapshot import SYNC_RESOURCES_BY_CONFIG, ModuleCrReader, ModuleCrState
from lifecycle_manager.object_set import Policies
from lifecycle_manager.options.configuration import ModuleCrStatusSettings
from lifecycle_manager.skr import Connections, SkrAccessError
from lifecycle_manager_api import ModuleConfig, SyncResource


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

    def exists(key: ObjectKey) -> bool:
        state = controller.state(key)
        return configs.get(key) is not None or (state is not None and state.config is not None)

    def of_kyma(signal: ClusterReachable | ClusterReplaced) -> Iterable[ObjectKey]:
        return map(MODULE_CONFIGS.key_of, configs.by_index(MODULE_CONFIGS_BY_KYMA, signal.kyma))

    controller: Controller[ObjectKey, ModuleCrState] = manager.controller(
        "module-cr-status",
        state=ModuleCrState,
        owner=owner,
        exists=exists,
        concurrency=settings.concurrency,
        max_per_owner=3,
        timeout_seconds=30.0,
        not_retried=(SkrAccessError,),
    )
    controller.starts_with(configs.cache.keys)
    # Not as the controller's own kind: what is known of a ModuleConfig is needed once more when it is gone.
    controller.watches(configs, to=lambda change: map(MODULE_CONFIGS.key_of, versions(change)[:1]), when=status_changed)
    controller.watches(sync_resources, to=lambda change: made_from(change.old, change.new), when=application_changed)
    controller.receives(SyncResourceApplied, to=lambda signal: made_from(signal.resource), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=of_kyma, priority=Priority.RESYNC)
    controller.receives(ClusterReplaced, to=of_kyma, priority=Priority.RESYNC)
    schemas = StatusSchemas(manager.clock)
    reader = ModuleCrReader(configs, sync_resources, policies, schemas, manager.clock)
    actions = ModuleCrActions(connections, schemas, manager.events, configs)
    controller.steps(read=reader.read, plan=plan, apply=actions.apply, finish=actions.finish, unforeseen=actions.report)
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
