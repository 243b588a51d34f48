"""The controller of ModuleConfigs: its triggers, and what a reconcile does. Its keys are the modules of Kymas.

A module's configuration is reconciled when

- an event reports a change of one of its Module CRs: only the announced object is read
- its Kyma, ModuleTemplate, release or ModulePolicy changes, or the CRDs among its objects do
- a ModuleConfig is created or deleted by others: only the Module CR of a deleted one is read
- its SKR answers again or is replaced, the webhook there has other rules, or all of it is to be read again
- the interval has passed: all Module CRs of the module are read

Limits: `Quota` on the number and bytes of ModuleConfigs; one large text at a time of each cluster; a timeout.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kube_runtime import (
    Causes,
    Change,
    Clock,
    Controller,
    JsonObject,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Resource,
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
    ObjectReference,
    ReadScope,
    ResyncRequested,
    WebhookRulesChanged,
)
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_config import rules
from lifecycle_manager.module_config.keys import (
    MODULE_CONFIGS_BY_MODULE,
    ModuleKey,
    Modules,
    crds_changed,
    kinds_named_by,
    usual_names,
)
from lifecycle_manager.module_config.reading import read_module_crs
from lifecycle_manager.module_config.rules import Configuration
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot, ModuleConfigState, Reads
from lifecycle_manager.module_config.status import failed
from lifecycle_manager.module_config.texts import TextMaker
from lifecycle_manager.module_config.writes import ModuleConfigWrites
from lifecycle_manager.object_set import Policies
from lifecycle_manager.object_set.policy import policy_changed
from lifecycle_manager.options.configuration import ModuleConfigSettings
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
    controller.watches(policies.informer, to=modules.of_policy, when=policy_changed, cause=everything)
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
    module_configs = ModuleConfigs(
        modules, connections, kinds, writes, manager.clock, settings, waiting_causes=controller.waiting_causes
    )
    controller.reconciles(module_configs.reconcile, unforeseen=module_configs.report, foreseen=(TemplateUnreadable,))
    return controller


@dataclass(frozen=True, eq=False)
class ModuleConfigs:
    """Reads Module CRs, makes their texts, and writes ModuleConfigs.

    `waiting_causes` are those of the next reconcile of a key, which arrived during this one.
    """

    modules: Modules
    connections: Connections
    kinds: ModuleKinds
    writes: ModuleConfigWrites
    clock: Clock
    settings: ModuleConfigSettings
    waiting_causes: Callable[[ModuleKey], Causes]
    texts: TextMaker = field(default_factory=TextMaker)

    async def reconcile(self, key: ModuleKey, causes: Causes, state: ModuleConfigState) -> Result:
        """Write the Module CRs of a module to KCP. Raises KubeError, SkrAccessError, TemplateUnreadable."""
        seen = self._seen(key)
        reads = state.note(causes, seen.existing, now=self.clock.monotonic())
        pending = state.announcements.of()
        configuration = rules.configuration_of(seen.item, key.module, seen.template)
        if configuration is Configuration.NONE:
            await self.writes.apply(seen, rules.deletions(seen.existing), {})
            self.writes.report_problem(seen, "")
            return Result(forget=True)
        if configuration is Configuration.UNDECIDED or (seen.template is None and not seen.existing):
            return Result()
        if not (reads.named or reads.complete):
            return Result(requeue_after=state.full_read_due - self.clock.monotonic())
        try:
            seen = await self._read(key, seen, reads)
        except (KubeError, SkrAccessError, TemplateUnreadable) as error:
            await self.writes.apply(seen, rules.marks(seen.existing, failed(error)), {})
            raise
        accepted = rules.acceptable(seen)
        seen = replace(seen, reading=await self.texts.with_texts(key.kyma, seen.reading, accepted))
        too_many = rules.exceeds_quota(seen, accepted)
        superseded = state.versions.note(seen.reading, accepted, exceeds_quota=too_many)
        announced = frozenset(each.object for each in pending)
        existing = self.modules.configs_of(key)
        seen = replace(seen, existing=existing, superseded=superseded, announced=announced)
        # A change that was announced during the read may have been read as well.
        waiting = self.waiting_causes(key).of(ObjectChanged)
        traces = {each.object: each.trace for each in pending} | {each.reference: each.trace for each in waiting}
        await self.writes.apply(seen, rules.writes_of(seen), traces)
        self.writes.report_problem(seen, "")
        now, interval = self.clock.monotonic(), interval_for(seen.item, self.settings.interval_seconds)
        return Result(requeue_after=state.settle(reads, seen.reading, pending, accepted, now=now, interval=interval))

    async def report(self, key: ModuleKey, error: Exception) -> None:
        """Report an unforeseen exception in all ModuleConfigs of a module. Raises KubeError."""
        seen = self._seen(key)
        await self.writes.apply(seen, rules.marks(seen.existing, failed(error)), {})

    def _seen(self, key: ModuleKey) -> ModuleConfigSnapshot:
        kyma = self.modules.kymas.get(ObjectKey(key.namespace, key.kyma))
        return ModuleConfigSnapshot(
            kyma=key.kyma,
            module=key.module,
            namespace=self.modules.policies.namespace_of(key.module),
            existing=self.modules.configs_of(key),
            item=kyma,
            template=self.modules.template(kyma, key.module),
            quota=self.settings.quota,
        )

    async def _read(self, key: ModuleKey, seen: ModuleConfigSnapshot, reads: Reads) -> ModuleConfigSnapshot:
        """Return the snapshot with the Module CRs and the names of their ModuleConfigs; without a template, none new.

        With the ModuleConfigs of now, too: reading takes time.
        """
        template, known = seen.template, seen.existing

        def require_own(resource: Resource[JsonObject]) -> None:
            if template is not None and (why := self.modules.foreign_kind(key, resource)):
                raise TemplateUnreadable(f"ModuleTemplate {template.metadata.name}: {why}")

        with part("ReadModuleCrs"):
            kinds = await self.kinds.of(template) if template is not None else kinds_named_by(known, key)
            async with self.connections.to(key.kyma) as skr:
                reading = await read_module_crs(
                    skr, kinds, require_own, named=reads.named, complete=reads.complete, is_removal=seen.is_removal
                )
        if template is None:
            references = (each.spec.resource_ref for each in known)
            reading = reading.only({ObjectReference.to(each) for each in references if each is not None})
        usual = usual_names(key.kyma, key.module, reading.default, reading.found)
        taken = self.modules.taken_names(key, usual.values())
        return replace(seen, reading=reading, usual_names=usual, taken=taken, existing=self.modules.configs_of(key))


def _is_created_or_deleted(change: Change[ModuleConfig]) -> bool:
    return change.old is None or change.new is None
