"""The controller `watcher`: keeps the Watcher of each Kyma's SKR in place. The key is that of the Kyma in KCP.

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

from collections.abc import Iterable, Iterator

from kube_runtime import Change, Controller, Manager, ObjectKey, Priority
from lifecycle_manager.contract.changes import kyma_changed, versions
from lifecycle_manager.contract.conditions import is_introduced, modules_removed
from lifecycle_manager.contract.indexes import BY_TEMPLATE
from lifecycle_manager.contract.resources import KYMAS, MODULE_TEMPLATES, WATCHERS
from lifecycle_manager.contract.signals import (
    CAsChanged,
    ClusterReachable,
    ClusterReplaced,
    KymaSignal,
    ResyncRequested,
    WatcherEventReceived,
)
from lifecycle_manager.contract.watchers import watcher_changed
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.skr import Connections, SkrAccessError
from lifecycle_manager.skr_webhook.apply import WatcherActions, WatcherReports
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleReader, kinds_changed, kymas_of, repair_switched
from lifecycle_manager.skr_webhook.plan import plan
from lifecycle_manager.skr_webhook.settings import WatcherSettings
from lifecycle_manager.skr_webhook.snapshot import ModuleRuleReader, WatcherReader, WatcherState
from lifecycle_manager.skr_webhook.status import NO_CERTIFICATE
from lifecycle_manager.skr_webhook.timers import NO_TIMERS
from lifecycle_manager.watcher_certificates import CARotation, LeafStore
from lifecycle_manager.watcher_certificates.metrics import AtScrape, renewal_metrics
from lifecycle_manager_api import ModuleTemplate

CHANGED = "changed"
"""The cause of a reconcile that a resource triggered. Without a cause only the time has passed."""
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

    rules = ModuleRuleReader(templates, kinds)
    controller.watches(kymas, when=kyma_changed(is_introduced, modules_removed), cause=CHANGED)
    controller.watches(kymas, when=rules.may_change, cause=CHANGED)
    controller.watches(templates, to=with_template, when=rules.may_differ, cause=CHANGED)
    controller.watches(watchers, to=all_kymas, when=watcher_changed, cause=CHANGED)
    controller.receives(WatcherEventReceived, to=_key_of, when=changes_condition)
    controller.receives(ResyncRequested, to=_key_of, priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=_key_of, priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=_key_of, priority=Priority.CHANGE)
    controller.receives(CAsChanged, to=all_kymas, priority=Priority.RESYNC)
    object_rules = ObjectRuleReader.watched_by(manager) if settings.repair_on_events else None
    if object_rules is not None:
        manifests, sync_resources = object_rules.manifests, object_rules.sync_resources
        controller.watches(manifests, to=kymas_of, when=kinds_changed, after=KINDS_SECONDS, cause=CHANGED)
        controller.watches(sync_resources, to=kymas_of, when=kinds_changed, after=KINDS_SECONDS, cause=CHANGED)
        controller.watches(object_rules.policies.informer, to=all_kymas, when=repair_switched, cause=CHANGED)
    actions = WatcherActions(
        manager,
        connections,
        watchers,
        rules,
        object_rules,
        certificates=certificates,
        cas=cas,
        settings=settings,
    )
    reports = WatcherReports(manager, kymas)
    controller.steps(
        read=WatcherReader(kymas, manager.clock, times).read,
        plan=plan,
        apply=actions.apply,
        finish=reports.finish,
        unforeseen=reports.unforeseen,
        outcomes=tuple(NO_CERTIFICATE),
    )

    def overdue() -> Iterator[str]:
        for kyma in kymas.list():
            state = controller.state(KYMAS.key_of(kyma))
            if state is not None and state.renewal_overdue and manager.sharding.owns(kyma.metadata.name):
                yield kyma.metadata.name

    manager.registry.register(AtScrape(lambda: renewal_metrics(overdue())))
    return controller


def _key_of(signal: KymaSignal) -> Iterable[ObjectKey]:
    return (signal.key,)
