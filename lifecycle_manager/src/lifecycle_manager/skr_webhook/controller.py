"""The controller `watcher`: what triggers a reconcile, and what a reconcile does. The key is that of the Kyma in KCP.

A Watcher is reconciled when

- the metadata of its Kyma changes, or the kinds of its modules, or which of them are installed; its SKR was read for
  the first time, or all modules are removed
- an event of the Watcher arrives which is the first, or ends silence or a broken event path; of the others the next
  reconcile learns
- it has requested a resync, perhaps because it has just started: then its event path is tested
- its SKR answers again, or is replaced by another: then its objects are compared
- a Watcher CR changes, or other CAs are in force: those of all Kymas
- a ModuleTemplate of the Kyma is edited so that other Module CRs are reported
- the Kyma's modules have objects of other kinds, or a ModulePolicy changes whether they are repaired on events
- its event path is to be tested, its silence would be too long, or the interval has passed
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kube_runtime import (
    Causes,
    Change,
    Controller,
    Informer,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Request,
    Result,
)
from lifecycle_manager.contract.changes import kyma_changed, versions
from lifecycle_manager.contract.conditions import (
    WEBHOOK,
    ConditionContent,
    has_webhook,
    is_introduced,
    modules_removed,
    write_condition,
)
from lifecycle_manager.contract.indexes import BY_TEMPLATE
from lifecycle_manager.contract.resources import KYMAS, MODULE_TEMPLATES, WATCHERS
from lifecycle_manager.contract.signals import (
    CAsChanged,
    ClusterReachable,
    ClusterReplaced,
    ResyncRequested,
    WatcherEventReceived,
)
from lifecycle_manager.contract.watchers import watcher_changed
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.options.watcher import WatcherSettings
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import failed
from lifecycle_manager.skr_webhook import rules
from lifecycle_manager.skr_webhook.apply import FIELD_MANAGER, SkrWatcher, WatcherSources
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleReader, kinds_changed, kymas_of, repair_switched
from lifecycle_manager.skr_webhook.rules import WatcherDone
from lifecycle_manager.skr_webhook.snapshot import (
    ModuleRuleReader,
    WatcherReader,
    WatcherSnapshot,
    WatcherState,
    records_of,
)
from lifecycle_manager.skr_webhook.status import NO_CERTIFICATE, event_type, reported_fault
from lifecycle_manager.skr_webhook.timers import NO_TIMERS
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation
from lifecycle_manager.watcher_certificates.certificates import LeafStore
from lifecycle_manager.watcher_certificates.metrics import AtScrape, renewal_metrics
from lifecycle_manager_api import Kyma, ModuleTemplate

CHANGED = "changed"
"""The cause of a reconcile that a resource triggered. Without a cause only the time has passed."""
REPORTED: tuple[type[Exception], ...] = (KubeError, SkrAccessError, *NO_CERTIFICATE)
"""What a reconcile foresees, and reports in the condition."""
KINDS_SECONDS = 0.5
"""How long to wait for further kinds of objects before the webhook of an SKR is changed."""


def setup(
    manager: Manager,
    connections: Connections,
    kinds: ModuleKinds,
    *,
    cas: CARotation,
    certificates: LeafStore,
    settings: WatcherSettings,
) -> Controller[ObjectKey, WatcherState]:
    """Keep the Watcher of each Kyma's SKR in place, and remove it with the Kyma."""
    kymas, watchers = manager.informer(KYMAS, indexes=[BY_TEMPLATE]), manager.informer(WATCHERS)
    templates = manager.informer(MODULE_TEMPLATES)
    times = settings.times

    controller: Controller[ObjectKey, WatcherState] = manager.controller(
        "watcher", state=WatcherState, concurrency=settings.concurrency, not_retried=(SkrAccessError,)
    )

    def all_kymas(_: object) -> Iterable[ObjectKey]:
        return map(KYMAS.key_of, kymas.list())

    def changes_condition(event: WatcherEventReceived) -> bool:
        state, waiting = controller.state(event.key), controller.waiting_causes(event.key)
        timers = state.timers if state is not None and state.timers is not None else NO_TIMERS
        return timers.received(times, waiting.of(WatcherEventReceived)).is_condition_changed_by(times, event)

    def with_template(change: Change[ModuleTemplate]) -> Iterable[ObjectKey]:
        return map(KYMAS.key_of, kymas.by_index(BY_TEMPLATE, versions(change)[0].metadata.name))

    module_rules = ModuleRuleReader(templates, kinds)
    controller.watches(kymas, when=kyma_changed(is_introduced, modules_removed), cause=CHANGED)
    controller.watches(kymas, when=module_rules.may_change, cause=CHANGED)
    controller.watches(templates, to=with_template, when=module_rules.may_differ, cause=CHANGED)
    controller.watches(watchers, to=all_kymas, when=watcher_changed, cause=CHANGED)
    controller.receives(WatcherEventReceived, to=lambda signal: (signal.key,), when=changes_condition)
    controller.receives(ResyncRequested, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(CAsChanged, to=all_kymas, priority=Priority.RESYNC)
    object_rules = ObjectRuleReader.watched_by(manager) if settings.repair_on_events else None
    if object_rules is not None:
        manifests, sync_resources = object_rules.manifests, object_rules.sync_resources
        controller.watches(manifests, to=kymas_of, when=kinds_changed, after=KINDS_SECONDS, cause=CHANGED)
        controller.watches(sync_resources, to=kymas_of, when=kinds_changed, after=KINDS_SECONDS, cause=CHANGED)
        controller.watches(object_rules.policies.informer, to=all_kymas, when=repair_switched, cause=CHANGED)
    sources = WatcherSources(
        manager=manager,
        connections=connections,
        watchers=watchers,
        rules=module_rules,
        object_rules=object_rules,
        certificates=certificates,
        cas=cas,
        settings=settings,
    )
    reconciler = WatcherReconciler(manager, kymas, sources, WatcherReader(kymas, manager.clock, times))
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report_unforeseen, foreseen=tuple(NO_CERTIFICATE))

    def overdue() -> Iterator[str]:
        for kyma in kymas.list():
            state = controller.state(KYMAS.key_of(kyma))
            if state is not None and state.renewal_overdue and manager.sharding.owns(kyma.metadata.name):
                yield kyma.metadata.name

    manager.registry.register(AtScrape(lambda: renewal_metrics(overdue())))
    return controller


@dataclass(frozen=True, eq=False)
class WatcherReconciler:
    """Keeps the Watcher of each Kyma's SKR in place, and removes it with the Kyma."""

    manager: Manager
    kymas: Informer[Kyma]
    sources: WatcherSources
    reader: WatcherReader

    async def reconcile(self, key: ObjectKey, causes: Causes, state: WatcherState) -> Result:
        """Bring the Watcher to the SKR and test its event path, or remove it, and write the condition."""
        async with Request(key, state, causes) as request:
            seen = self.reader.read(request)
            if seen is None:
                return Result()
            watcher = SkrWatcher(self.sources, request)
            try:
                if not rules.is_managed(seen.kyma):
                    end = WatcherDone(timers=seen.timers.found(in_order=False))
                elif seen.kyma.metadata.being_deleted:
                    end = rules.removed(seen, await watcher.delete())
                else:
                    end = await maintain(watcher, seen)
            except REPORTED as error:
                end = rules.failure(replace(seen, timers=state.timers or seen.timers), error)
            state.timers = end.timers
            if end.condition is not None:
                await self._write(self.kymas.get(key) or seen.kyma, end.condition, watcher.records)
        if end.error is not None:
            raise end.error
        return Result(end.requeue_after)

    async def report_unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.kymas.get(key)
        if kyma is not None:
            await self._write(kyma, failed(error))

    async def _write(self, kyma: Kyma, condition: ConditionContent, records: Mapping[str, str] | None = None) -> None:
        """Write what has changed; where a fault begins or ends, that is an Event, too. Raises KubeError."""
        reported = reported_fault(kyma, condition)
        written = await write_condition(
            self.manager.client,
            kyma,
            WEBHOOK,
            reported or condition,
            now=self.manager.clock.now(),
            field_manager=FIELD_MANAGER,
            records=records_of(kyma) if records is None else records,
        )
        if written is None:
            return
        self.kymas.wrote(written)
        if reported is None and (kind := event_type(kyma, condition)):
            self.manager.events.record(KYMAS, kyma, condition.reason, condition.message, type=kind, action="Watch")


async def maintain(watcher: SkrWatcher, seen: WatcherSnapshot) -> WatcherDone:
    """Have the SKR have the Watcher, and test its event path; return what to report. Raises what fails.

    Nothing but the path is tested where all was in order and only time has passed.
    """
    desired = None
    if not rules.is_in_order(seen):
        with_webhook = seen.timers.has_received or has_webhook(seen.kyma)
        desired = await watcher.desired(seen.kyma, with_webhook=with_webhook)
        seen = watcher.later(seen)
        if (how := rules.comparison(seen, desired)) is not None:
            seen = await watcher.apply(seen, desired, how)
        if (end := rules.unheard(seen, desired)) is not None:
            return end
    path = rules.path_of(seen)
    if path.is_due(seen.now):
        seen = await watcher.send_canary(seen, path)
    return rules.tested(seen, desired)
