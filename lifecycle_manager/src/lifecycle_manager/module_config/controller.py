"""The controller of ModuleConfigs: triggers, settings, and the state of each module of a Kyma.

Of an announced change only the announced object is read. For any other reason, and once in each interval, all Module
CRs of the module are read.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kube_runtime import Causes, Change, Clock, Controller, Informer, KubeError, Manager, ObjectKey, Priority, Result
from kube_runtime.informer import Index
from lifecycle_manager.contract.changes import modules_changed, versions
from lifecycle_manager.contract.conditions import interval_for
from lifecycle_manager.contract.indexes import (
    BY_CHANNEL,
    BY_MODULE,
    BY_TEMPLATE,
    MODULE_CONFIGS_BY_KYMA,
)
from lifecycle_manager.contract.options import Count, Seconds, config_concurrency_option, option
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MODULE_CONFIGS,
    MODULE_TEMPLATES,
    DatedReleaseMeta,
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
from lifecycle_manager.module_catalog import is_excluded, module_of
from lifecycle_manager.module_catalog.affected import kymas_using_release, kymas_using_template, offer_changed
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_catalog.offer import release_of
from lifecycle_manager.module_config.apply import ModuleConfigWrites
from lifecycle_manager.module_config.plan import (
    Undecided,
    acceptable,
    bytes_left,
    decide,
    plan,
    sources_of,
    usual_names,
)
from lifecycle_manager.module_config.reading import NOTHING_FOUND, Found, find_all, find_some
from lifecycle_manager.module_config.snapshot import ModuleCr, Quota, Reading, Snapshot
from lifecycle_manager.module_config.status import SyncedCondition, failed
from lifecycle_manager.module_config.texts import READ_SECONDS, Memory, TextMaker, TextThread
from lifecycle_manager.object_set import Policies
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr import Announcements, Connections, Seen, SkrAccessError
from lifecycle_manager.skr.budget import CpuBudget
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, names

RULES_SECONDS = 2.0
"""How long an API server may take until it uses the new rules of a webhook."""


MIN_POSTPONED_SECONDS = 0.5
RESUME_SECONDS = 0.5
"""When everything is read again after the writes of thousands of Module CRs stopped for an event."""

NOTHING_REMEMBERED = Memory()


class ModuleKey(NamedTuple):
    """One module of one Kyma in KCP."""

    namespace: str
    kyma: str
    module: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kyma}/{self.module}"


@dataclass(frozen=True, slots=True)
class ModuleConfigSettings:
    """The settings of the domain."""

    interval_seconds: Seconds = option(
        240.0, "module-config-requeue-success-interval", "interval at which Module CRs are read without an event"
    )
    concurrency: Count = config_concurrency_option()
    quota: Quota = field(default_factory=Quota)


@dataclass(eq=False, slots=True)
class ModuleConfigState:
    """The state of one module: announced changes, and the monotonic time from which on everything is read.

    The budget is that of the cluster.
    """

    announcements: Announcements = field(default_factory=Announcements)
    full_read_due: float = 0.0
    memory: Memory = field(default_factory=Memory)
    budget: CpuBudget = field(default_factory=CpuBudget)


def _module_of_config(config: ModuleConfig) -> Iterable[str]:
    yield f"{config.spec.kyma}/{config.spec.module}"


MODULE_CONFIGS_BY_MODULE: Index[ModuleConfig] = Index("module", _module_of_config)
"""ModuleConfigs by `kyma/module`."""


def keys_of(kyma: Kyma) -> tuple[ModuleKey, ...]:
    """Return the keys of the modules in a Kyma's status."""
    return tuple(_key(kyma, status.name) for status in kyma.status.modules)


def setup(
    manager: Manager,
    connections: Connections,
    *,
    kinds: ModuleKinds,
    latency: ChangeLatency,
    settings: ModuleConfigSettings,
) -> Controller[ModuleKey, ModuleConfigState]:
    """Add the controller of ModuleConfigs."""
    kymas = manager.informer(KYMAS, indexes=[BY_MODULE, BY_CHANNEL, BY_TEMPLATE])
    templates, releases = manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS)
    configs = manager.informer(
        MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA, MODULE_CONFIGS_BY_MODULE]
    )
    policies = Policies.watched_by(manager)
    modules = _Modules(kymas, templates, releases, configs, policies, kinds)

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
    controller.watches(configs, to=modules.of_config, when=_is_created_or_deleted, cause=everything)
    controller.watches(
        templates, to=lambda change: modules.of_template(versions(change)[0]), when=offer_changed, cause=everything
    )
    controller.watches(releases, to=modules.of_release, when=offer_changed, cause=everything)
    controller.starts_with(modules.all, cause=everything)

    controller.receives(ObjectChanged, to=modules.of_object)  # the only cause for which not everything is read
    controller.receives(ResyncRequested, to=modules.of_kyma)
    controller.receives(ClusterReachable, to=modules.of_kyma, priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=modules.of_kyma, priority=Priority.CHANGE)
    # Nobody reported what changed before the API server used the rules.
    controller.receives(WebhookRulesChanged, to=modules.of_kyma, priority=Priority.CHANGE, after=RULES_SECONDS)
    controller.receives(DescriptorFound, to=modules.of_descriptor, priority=Priority.CHANGE)

    writes = ModuleConfigWrites(manager.client, configs, policies, manager.events, latency, manager.clock)
    reconciler = _Reconciler(controller, connections, modules, writes, manager.clock, settings, TextThread())
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report, foreseen=(TemplateUnreadable,))
    return controller


@dataclass(frozen=True, eq=False)
class _Modules:
    """Finds the keys of modules."""

    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    configs: Informer[ModuleConfig]
    policies: Policies
    kinds: ModuleKinds

    def all(self) -> Iterable[ModuleKey]:
        """Return the modules of all Kymas, and those that have ModuleConfigs."""
        of_kymas = {key for kyma in self.kymas.cache.list() for key in keys_of(kyma)}
        return of_kymas.union(self._keys_of_configs(self.configs.cache.list()))

    def exists(self, key: ModuleKey) -> bool:
        """Tell whether a Kyma has the module, or there are ModuleConfigs of it."""
        kyma = self.kymas.get(ObjectKey(key.namespace, key.kyma))
        return (kyma is not None and key in keys_of(kyma)) or bool(self.configs_of(key))

    def configs_of(self, key: ModuleKey) -> tuple[ModuleConfig, ...]:
        """Return the ModuleConfigs of a module, in the namespace of the module."""
        found = self.configs.by_index(MODULE_CONFIGS_BY_MODULE, f"{key.kyma}/{key.module}")
        return tuple(filter(self.policies.is_in_place, found))

    def taken_names(self, key: ModuleKey, reading: Reading) -> frozenset[str]:
        """Return the names that a module would use and that ModuleConfigs of others have."""
        usual, namespace = usual_names(key.kyma, key.module, reading), self.policies.namespace_of(key.module)
        found = (self.configs.get(ObjectKey(namespace, name)) for name in usual)
        return frozenset(each.metadata.name for each in found if each is not None and _key_of_config(each) != key)

    def of_changed_kyma(self, change: Change[Kyma]) -> Iterable[ModuleKey]:
        """Return the modules that a Kyma had and has, and those that have ModuleConfigs."""
        configs = self.configs.by_index(MODULE_CONFIGS_BY_KYMA, versions(change)[0].metadata.name)
        return {key for kyma in versions(change) for key in keys_of(kyma)}.union(self._keys_of_configs(configs))

    def of_config(self, change: Change[ModuleConfig]) -> Iterable[ModuleKey]:
        """Return the module of a ModuleConfig that was created or deleted."""
        return self._keys_of_configs(versions(change))

    def _keys_of_configs(self, configs: Iterable[ModuleConfig]) -> set[ModuleKey]:
        return {_key_of_config(each) for each in configs if self.policies.is_in_place(each)}

    def of_template(self, template: ModuleTemplate | None) -> Iterable[ModuleKey]:
        """Return the modules that have a template, or may have it now."""
        if template is None:
            return ()
        having = kymas_using_template(template, kymas=self.kymas, releases=self.releases)
        return [_key(kyma, module_of(template)) for kyma in having]

    def of_descriptor(self, found: DescriptorFound) -> Iterable[ModuleKey]:
        """Return the modules that have the template of a descriptor."""
        return self.of_template(self.templates.get(ObjectKey(found.namespace, found.template)))

    def of_release(self, change: Change[DatedReleaseMeta]) -> Iterable[ModuleKey]:
        """Return the modules that a change of a release concerns."""
        module = versions(change)[0].spec.module_name
        return [_key(kyma, module) for kyma in kymas_using_release(change, kymas=self.kymas)]

    def of_kyma(
        self, signal: ResyncRequested | ClusterReachable | ClusterReplaced | WebhookRulesChanged
    ) -> Iterable[ModuleKey]:
        """Return the modules of a signal's Kyma."""
        kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, signal.kyma))
        return keys_of(kyma) if kyma is not None else ()

    def of_object(self, change: ObjectChanged) -> Iterable[ModuleKey]:
        """Return the modules of a Kyma whose Module CRs are of the changed object's kind."""
        kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, change.kyma))
        for key in keys_of(kyma) if kyma is not None else ():
            template = self.template(kyma, key.module)
            known = self.kinds.known(template) if template is not None else ()
            if any((each.group, each.kind) == (change.reference.group, change.reference.kind) for each in known):
                yield key

    def template(self, kyma: Kyma | None, module: str) -> ModuleTemplate | None:
        """Return the template that a module of a Kyma resolved to."""
        statuses = kyma.status.modules if kyma is not None else ()
        reference = next((status.template for status in statuses if status.name == module), None)
        if reference is None:
            return None
        return self.templates.get(ObjectKey(reference.metadata.namespace or "", reference.metadata.name))

    def is_excluded(self, kyma: Kyma, module: str) -> bool:
        """Tell whether a Kyma may not have a module at all."""
        return is_excluded(kyma.metadata.labels, release_of(module, self.releases.cache.list()))


@dataclass(frozen=True, eq=False)
class _Reconciler:
    """Keeps the ModuleConfigs of one module equal to its Module CRs in the SKR."""

    controller: Controller[ModuleKey, ModuleConfigState]
    connections: Connections
    modules: _Modules
    writes: ModuleConfigWrites
    clock: Clock
    settings: ModuleConfigSettings
    thread: TextThread

    async def reconcile(self, key: ModuleKey, causes: Causes, state: ModuleConfigState) -> Result:
        """Write, delete or mark ModuleConfigs. Raises KubeError, SkrAccessError or TemplateUnreadable."""
        _note(causes, state, now=self.clock.monotonic())
        kyma = self.modules.kymas.get(ObjectKey(key.namespace, key.kyma))
        template = self.modules.template(kyma, key.module)
        is_excluded = kyma is not None and template is None and self.modules.is_excluded(kyma, key.module)
        decision = decide(kyma, key.module, template, is_excluded=is_excluded)
        if isinstance(decision, Undecided):
            return Result()
        if decision is None:
            state.announcements, state.full_read_due, state.memory = Announcements(), 0.0, Memory()
            await self._apply(key, state)
            return Result()
        state.budget = self.connections.budget(key.kyma)
        return await self._synchronize(key, state, decision.template)

    async def report(self, key: ModuleKey, error: Exception) -> None:
        """Report an unforeseen exception in all ModuleConfigs of a module. Raises KubeError."""
        await self._apply(key, self.controller.state_or_new(key), problem=failed(error))

    async def _synchronize(self, key: ModuleKey, state: ModuleConfigState, template: ModuleTemplate) -> Result:
        """Read what is announced, postponed or due, and carry out what follows."""
        pending, started = state.announcements.of(), self.clock.monotonic()
        wanted = state.memory.postponed.union(each.object for each in pending)
        # Not even requested before there is time for their texts; then the newest is read, whatever announced it.
        large = frozenset(filter(state.memory.costs_time, wanted))
        left_out = large if state.budget.wait(started) > 0 else frozenset[ObjectReference]()
        state.budget.charge(
            READ_SECONDS * len(large - left_out), started
        )  # at once, so that others wait for their turn
        named, is_complete = wanted - left_out, not wanted or started >= state.full_read_due
        if not named and not is_complete:
            state.announcements.settle({each: Seen() for each in pending}, now=started)
            state.memory.postponed |= left_out
            return Result(requeue_after=min(state.full_read_due - started, _until_affordable(state, started)))
        try:
            kinds = await self.modules.kinds.of(template)
            async with self.connections.to(key.kyma) as skr:
                found = await find_all(skr, kinds) if is_complete else NOTHING_FOUND
                if not found.complete and (missing := named.difference(found.module_crs)):
                    found = found.with_others(await find_some(skr, kinds, sorted(missing)))
        except (KubeError, SkrAccessError, TemplateUnreadable) as error:
            await self._apply(key, state, problem=failed(error))
            raise
        reading = await self._with_texts(key, state, found)
        await asyncio.sleep(0)
        if not is_complete:
            state.memory.postponed |= left_out
        is_done = await self._apply(key, state, reading)
        now = self.clock.monotonic()
        seen = {announcement: _seen(reading.found.get(announcement.object)) for announcement in pending}
        again = state.announcements.settle(seen, now=now)
        if is_complete:
            kyma = self.modules.kymas.get(ObjectKey(key.namespace, key.kyma))
            interval = interval_for(kyma, self.settings.interval_seconds)
            state.full_read_due = started + interval if is_done else now + RESUME_SECONDS
        waits = [max(0.0, state.full_read_due - now)]
        if again is not None:
            waits.append(again)
        if state.memory.postponed:
            waits.append(_until_affordable(state, now))
        return Result(requeue_after=min(waits))

    async def _with_texts(self, key: ModuleKey, state: ModuleConfigState, found: Found) -> Reading:
        """Return the reading with the texts of what is within the quota."""
        identities = Reading(found.default, found.module_crs, found.complete)
        seen = self._snapshot(key, identities)
        maker = TextMaker(thread=self.thread, memory=state.memory, budget=state.budget, clock=self.clock)
        accepted, configs = acceptable(seen, identities), sources_of(seen, identities)
        await asyncio.sleep(0)  # each of these takes milliseconds for thousands of Module CRs
        return await maker.with_texts(found, accepted, configs, bytes_left(seen))

    def _snapshot(
        self,
        key: ModuleKey,
        reading: Reading | None,
        problem: SyncedCondition | None = None,
        *,
        memory: Memory = NOTHING_REMEMBERED,
    ) -> Snapshot:
        taken = self.modules.taken_names(key, reading) if reading is not None else frozenset()
        found = reading.found.values() if reading is not None else ()
        return Snapshot(
            key.kyma,
            key.module,
            self.modules.policies.namespace_of(key.module),
            self.modules.configs_of(key),
            reading,
            problem,
            self.settings.quota,
            taken,
            superseded=frozenset(each.source for each in found if each is not None and memory.is_superseded(each)),
        )

    async def _apply(
        self,
        key: ModuleKey,
        state: ModuleConfigState,
        reading: Reading | None = None,
        problem: SyncedCondition | None = None,
    ) -> bool:
        """Carry out what follows. Raises KubeError.

        Returns false where it stopped for an event; what is left is found again.
        """
        traces = {announcement.object: announcement.trace for announcement in state.announcements.of()}
        # A change that was announced during the read may have been read as well.
        waiting = self.controller.waiting_causes(key).of(ObjectChanged)
        traces |= {change.reference: change.trace for change in waiting}
        seen = self._snapshot(key, reading, problem, memory=state.memory)
        return await self.writes.apply(
            seen,
            plan(seen),
            traces,
            is_awaited=lambda: bool(self.controller.waiting_causes(key).of(ObjectChanged)),
        )


def _until_affordable(state: ModuleConfigState, now: float) -> float:
    return max(MIN_POSTPONED_SECONDS, state.budget.wait(now))


def _note(causes: Causes, state: ModuleConfigState, *, now: float) -> None:
    """Put what triggered a reconcile into the state."""
    announced = [state.announcements.announce(change, now=now) for change in causes.of(ObjectChanged)]
    if causes.overflowed or len(announced) < len(causes) or not all(announced):
        state.full_read_due = 0.0


def _is_created_or_deleted(change: Change[ModuleConfig]) -> bool:
    """Tell whether a ModuleConfig was created or deleted."""
    return change.old is None or change.new is None


def _key(kyma: Kyma, module: str) -> ModuleKey:
    return ModuleKey(kyma.metadata.namespace, kyma.metadata.name, module)


def _key_of_config(config: ModuleConfig) -> ModuleKey:
    return ModuleKey(names.KCP_NAMESPACE, config.spec.kyma, config.spec.module)


def _seen(module_cr: ModuleCr | None) -> Seen:
    if module_cr is None:
        return Seen()
    return Seen(module_cr.reference.uid, module_cr.reference.resource_version, module_cr.is_deleting)
