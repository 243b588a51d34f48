"""The controller of ModuleConfigs: its triggers, and what a reconcile does. Its keys are the modules of Kymas.

A module's configuration is reconciled when

- an event reports a change of one of its Module CRs: only the announced object is read
- its Kyma, ModuleTemplate, release or ModulePolicy changes, or the CRDs among its objects do
- a ModuleConfig is created or deleted by others: only the Module CR of a deleted one is read; or is that of a backup
- its SKR answers again or is replaced, the webhook there has other rules, or all of it is to be read again
- the interval has passed: all Module CRs of the module are read

Limits: `Quota` on the number and bytes of ModuleConfigs; one large text at a time of each cluster; a timeout.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from kube_runtime import (
    Causes,
    Clock,
    Controller,
    KubeError,
    Manager,
    Priority,
    Result,
)
from kube_runtime.tracing import part
from lifecycle_manager.contract.changes import modules_changed, versions
from lifecycle_manager.contract.conditions import interval_for
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
from lifecycle_manager.module_config import rules
from lifecycle_manager.module_config.keys import MODULE_CONFIGS_BY_MODULE, ModuleKey, Modules
from lifecycle_manager.module_config.kinds import AllowedKinds, crds_changed
from lifecycle_manager.module_config.reading import read_module_crs
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot, ModuleConfigState, Reads
from lifecycle_manager.module_config.texts import TextMaker
from lifecycle_manager.module_config.writes import ModuleConfigWrites
from lifecycle_manager.object_set.policy import Policies, policy_changed
from lifecycle_manager.options.configuration import ModuleConfigSettings
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import names


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
    modules = Modules(kymas, templates, releases, configs, policies, kinds)

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
    controller.watches(
        configs, to=modules.of_config, when=lambda it: it.old is None or it.new is None, cause=ReadScope.DIFFERING
    )
    controller.watches(configs, to=modules.of_config, when=lambda change: change.may_be_restored, cause=everything)
    controller.watches(
        templates, to=lambda change: modules.of_template(versions(change)[0]), when=offer_changed, cause=everything
    )
    controller.watches(releases, to=modules.of_release, when=offer_changed, cause=everything)
    controller.watches(policies.informer, to=modules.of_policy, when=policy_changed, cause=everything)
    controller.watches(manifests, to=modules.of_part, when=crds_changed, cause=everything)
    controller.watches(sync_resources, to=modules.of_part, when=crds_changed, cause=everything)
    # Users may have changed something while nobody took events: before what is only checked.
    controller.starts_with(modules.all, cause=everything, priority=Priority.CHANGE)

    controller.receives(ObjectChanged, to=modules.of_object)
    controller.receives(ResyncRequested, to=modules.of_kyma)
    controller.receives(ClusterReachable, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(WebhookRulesChanged, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(DescriptorFound, to=modules.of_descriptor, priority=Priority.CHANGE)

    writes = ModuleConfigWrites(
        manager.client, configs, policies, manager.events, latency, manager.clock, manager.publish
    )
    module_configs = ModuleConfigs(
        modules,
        AllowedKinds(kinds, policies, manifests, sync_resources),
        connections,
        writes,
        manager.clock,
        settings,
        waiting_causes=controller.waiting_causes,
    )
    controller.reconciles(module_configs.reconcile, unforeseen=module_configs.report, foreseen=(TemplateUnreadable,))
    return controller


@dataclass(frozen=True, eq=False)
class ModuleConfigs:
    """Reads Module CRs, makes their texts, and writes ModuleConfigs.

    `waiting_causes` are those of the next reconcile of a key, which arrived during this one.
    """

    modules: Modules
    kinds: AllowedKinds
    connections: Connections
    writes: ModuleConfigWrites
    clock: Clock
    settings: ModuleConfigSettings
    waiting_causes: Callable[[ModuleKey], Causes]
    texts: TextMaker = field(default_factory=TextMaker)

    async def reconcile(self, key: ModuleKey, causes: Causes, state: ModuleConfigState) -> Result:
        """Write the Module CRs of a module to KCP. Raises KubeError, SkrAccessError, TemplateUnreadable."""
        seen = self.modules.seen(key, self.settings.quota)
        reads = state.note(causes, seen.existing, now=self.clock.monotonic())
        if (end := rules.end_before_reading(seen)) is not None:
            await self.writes.carry_out(seen, end.writes)
            return Result(forget=end.forget)
        if not reads:
            return Result(requeue_after=state.full_read_due - self.clock.monotonic())
        seen = await self._read(key, seen, reads)
        # A change that was announced during the read may have been read as well.
        waiting = self.waiting_causes(key).of(ObjectChanged)
        traces = {each.object: each.trace for each in reads.announced} | {
            each.reference: each.trace for each in waiting
        }
        seen = replace(seen, superseded=state.versions.note(seen), traces=traces)
        await self.writes.carry_out(seen, rules.writes_of(seen))
        if seen.failure is not None:
            raise seen.failure
        interval = interval_for(seen.item, self.settings.interval_seconds)
        return Result(requeue_after=state.settle(reads, seen, now=self.clock.monotonic(), interval=interval))

    async def report(self, key: ModuleKey, error: Exception) -> None:
        """Report an unforeseen exception in all ModuleConfigs of a module. Raises KubeError."""
        seen = replace(self.modules.seen(key, self.settings.quota), failure=error)
        await self.writes.carry_out(seen, rules.writes_of(seen))

    async def _read(self, key: ModuleKey, seen: ModuleConfigSnapshot, reads: Reads) -> ModuleConfigSnapshot:
        """Return the snapshot with the Module CRs and their texts, or with the failure to read them."""
        try:
            with part("ReadModuleCrs"):
                kinds = await self.kinds.of(seen)
                async with self.connections.to(key.kyma) as skr:
                    reading = await read_module_crs(
                        skr,
                        kinds,
                        partial(self.kinds.require, seen),
                        named=reads.named,
                        complete=reads.complete,
                        is_removal=seen.is_removal,
                    )
                    if reading.complete:
                        reading = replace(reading, staying=await self.kinds.staying(skr, seen, kinds))
        except (KubeError, SkrAccessError, TemplateUnreadable) as error:
            return replace(seen, failure=error)
        seen = self.modules.with_reading(key, seen, reading)
        accepted = rules.acceptable(seen)
        reading = await self.texts.with_texts(seen.kyma, seen.reading, accepted)
        return replace(seen, reading=reading, accepted=accepted)
