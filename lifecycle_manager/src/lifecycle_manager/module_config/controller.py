"""The controller of ModuleConfigs: its triggers. Its keys are the modules of Kymas.

A module's configuration is reconciled when

- an event reports a change of one of its Module CRs: only the announced object is read
- its Kyma, ModuleTemplate or release changes, or the CRDs among its objects do
- a ModuleConfig is created or deleted by others: only the Module CR of a deleted one is read
- its SKR answers again or is replaced, the webhook there has other rules, or all of it is to be read again
- the interval has passed: all Module CRs of the module are read

Limits: `Quota` on the number and bytes of ModuleConfigs; one large text at a time of each cluster; a timeout.
"""

from kube_runtime import Change, Controller, Manager, Priority
from lifecycle_manager.contract.changes import modules_changed, versions
from lifecycle_manager.contract.indexes import (
    BY_CHANNEL,
    BY_MODULE,
    BY_TEMPLATE,
    MANIFESTS_BY_KYMA,
    MODULE_CONFIGS_BY_KYMA,
    SYNC_RESOURCES_BY_KYMA,
)
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_TEMPLATES,
    SYNC_RESOURCES,
)
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    DescriptorFound,
    ObjectChanged,
    ReadScope,
    ResyncRequested,
    WebhookRulesChanged,
)
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_config.apply import ModuleConfigActions
from lifecycle_manager.module_config.keys import MODULE_CONFIGS_BY_MODULE, ModuleKey, Modules, crds_changed
from lifecycle_manager.module_config.plan import plan
from lifecycle_manager.module_config.settings import ModuleConfigSettings
from lifecycle_manager.module_config.snapshot import ModuleConfigReader, ModuleConfigState
from lifecycle_manager.module_config.writes import ModuleConfigWrites
from lifecycle_manager.object_set import Policies
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr import Connections, SkrAccessError
from lifecycle_manager_api import ModuleConfig, names


def setup(
    manager: Manager,
    connections: Connections,
    *,
    kinds: ModuleKinds,
    latency: ChangeLatency,
    settings: ModuleConfigSettings,
) -> Controller[ModuleKey, ModuleConfigState]:
    kymas = manager.informer(KYMAS, indexes=[BY_MODULE, BY_CHANNEL, BY_TEMPLATE])
    templates, releases = manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS)
    configs = manager.informer(
        MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA, MODULE_CONFIGS_BY_MODULE]
    )
    policies = Policies.watched_by(manager)
    manifests = manager.informer(MANIFESTS, namespace=names.KCP_NAMESPACE, indexes=[MANIFESTS_BY_KYMA])
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_KYMA])
    modules = Modules(kymas, templates, releases, configs, policies, kinds, manifests, sync_resources)

    controller: Controller[ModuleKey, ModuleConfigState] = manager.controller(
        "module-config",
        state=ModuleConfigState,
        owner=lambda key: key.kyma,
        exists=modules.exists,
        concurrency=settings.concurrency,
        max_per_owner=3,
        timeout_seconds=30.0,  # three requests that hardly succeed; an event is not to be held up for longer
        not_retried=(SkrAccessError,),
    )
    everything = ReadScope.EVERYTHING
    controller.watches(kymas, to=modules.of_changed_kyma, when=modules_changed, cause=everything)
    controller.watches(configs, to=modules.of_config, when=_is_created_or_deleted, cause=ReadScope.DIFFERING)
    controller.watches(
        templates, to=lambda change: modules.of_template(versions(change)[0]), when=offer_changed, cause=everything
    )
    controller.watches(releases, to=modules.of_release, when=offer_changed, cause=everything)
    controller.watches(manifests, to=modules.of_part, when=crds_changed, cause=everything)
    controller.watches(sync_resources, to=modules.of_part, when=crds_changed, cause=everything)
    controller.starts_with(modules.all, cause=everything)

    controller.receives(ObjectChanged, to=modules.of_object)
    controller.receives(ResyncRequested, to=modules.of_kyma)
    controller.receives(ClusterReachable, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(WebhookRulesChanged, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(DescriptorFound, to=modules.of_descriptor, priority=Priority.CHANGE)

    writes = ModuleConfigWrites(
        manager.client, configs, policies, manager.events, latency, manager.clock, manager.publish
    )
    reader = ModuleConfigReader(modules, manager.clock, settings.quota)
    actions = ModuleConfigActions(
        reader,
        connections,
        kinds,
        writes,
        manager.clock,
        waiting_causes=controller.waiting_causes,
        interval_seconds=settings.interval_seconds,
    )
    controller.steps(
        read=reader.read,
        plan=plan,
        apply=actions.apply,
        finish=actions.finish,
        unforeseen=actions.report,
        outcomes=(TemplateUnreadable,),
    )
    return controller


def _is_created_or_deleted(change: Change[ModuleConfig]) -> bool:
    return change.old is None or change.new is None
