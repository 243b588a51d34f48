"""The controller of Kymas and all its triggers.

A Kyma is reconciled when it changes, when its offer, its Manifests, ModuleConfigs or SyncResources change, for events
from its SKR, when its SKR can be reached again, and once an interval.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kube_runtime import Change, Controller, Informer, Manager, ObjectKey, Priority
from kube_runtime.informer import Index
from lifecycle_manager.contract.changes import finalizer_lost, generation_changed, metadata_changed
from lifecycle_manager.contract.conditions import CATALOG, WEBHOOK
from lifecycle_manager.contract.indexes import (
    BY_CHANNEL,
    BY_MODULE,
    BY_TEMPLATE,
    MANIFESTS_BY_KYMA,
    MODULE_CONFIGS_BY_KYMA,
    SYNC_RESOURCES_BY_KYMA,
)
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
    Secret,
)
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    DescriptorFound,
    ObjectChanged,
    ObjectReference,
    ResyncRequested,
    UnclaimedChange,
)
from lifecycle_manager.kyma.apply import KymaActions
from lifecycle_manager.kyma.crd import KymaCrds, crd_changed
from lifecycle_manager.kyma.module_status import UNDER_WAY
from lifecycle_manager.kyma.plan import plan
from lifecycle_manager.kyma.pull_secret import data_changed
from lifecycle_manager.kyma.settings import KymaSettings
from lifecycle_manager.kyma.snapshot import KymaSnapshots, KymaState
from lifecycle_manager.kyma.status import OWN_CONDITIONS
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_catalog.affected import kymas_using_release, kymas_using_template, offer_changed
from lifecycle_manager.object_set import Policies
from lifecycle_manager.process.telemetry import policy_readable
from lifecycle_manager.rollout import Schedule
from lifecycle_manager.skr import Connections, SkrAccessError
from lifecycle_manager_api import (
    Condition,
    Kyma,
    Manifest,
    ModuleConfig,
    ModuleTemplate,
    State,
    SyncResource,
    names,
)

T = TypeVar("T")

UNFINISHED = frozenset({State.EMPTY, State.PROCESSING})
KYMA_CRD = f"metadata.name={KYMAS.plural_name}"
SKR_KYMA = ObjectReference(KYMAS.group, KYMAS.kind, names.SKR_NAMESPACE, names.DEFAULT_KYMA_NAME)

SETTLE_SECONDS = 0.2
"""How long to wait for further changes: the parts of a Kyma often change several at a time."""
PROGRESS_SECONDS = 3.0
"""How long to wait for them while other parts of a new Kyma, or of a new version, are under way.

What has to be done for other Kymas comes first, then: of thousands of new clusters, none is shown step by step.
"""
PARTS_SETTLE_SECONDS = 1.0
"""The same for ModuleConfigs and SyncResources: nobody waits for what the Kyma says of them, and there may be many."""


def setup(
    manager: Manager, connections: Connections, *, offers: Offers, settings: KymaSettings
) -> Controller[ObjectKey, KymaState]:
    """Add the controller of Kymas to a manager."""
    kymas = manager.informer(KYMAS, indexes=(BY_MODULE, BY_CHANNEL, BY_TEMPLATE))
    templates = manager.informer(MODULE_TEMPLATES)
    releases = manager.informer(DATED_RELEASE_METAS)
    manifests = manager.informer(MANIFESTS, indexes=(MANIFESTS_BY_KYMA,))
    module_configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=(MODULE_CONFIGS_BY_KYMA,))
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=(SYNC_RESOURCES_BY_KYMA,))
    policies = Policies.watched_by(manager)
    # Not required: SKRs have a CRD, and an installation with the rights of an earlier version can't read CRDs.
    crds = manager.informer(CUSTOM_RESOURCE_DEFINITIONS, field_selector=KYMA_CRD, required=False)
    pull_secrets = _pull_secrets(manager, settings.pull_secret)
    controller: Controller[ObjectKey, KymaState] = manager.controller(
        "kyma", state=KymaState, concurrency=settings.concurrency, not_retried=(SkrAccessError,)
    )

    def all_kymas(_: object) -> Iterable[ObjectKey]:
        return map(KYMAS.key_of, kymas.list())

    def changed_offer(template: ModuleTemplate | None) -> Iterable[ObjectKey]:
        found = kymas_using_template(template, kymas=kymas, releases=releases) if template is not None else ()
        return map(KYMAS.key_of, found)

    def changed_in_skr(event: ObjectChanged) -> Iterable[ObjectKey]:
        return (event.key,) if event.reference == SKR_KYMA and kymas.get(event.key) is not None else ()

    controller.watches(kymas, when=status_is_outdated)
    controller.watches(crds, to=all_kymas, when=crd_changed, priority=Priority.RESYNC)
    if pull_secrets is not None:
        controller.watches(pull_secrets, to=all_kymas, when=data_changed, priority=Priority.RESYNC)
    controller.watches(templates, to=lambda change: changed_offer(change.new or change.old), when=offer_changed)
    controller.watches(
        releases, to=lambda change: map(KYMAS.key_of, kymas_using_release(change, kymas=kymas)), when=offer_changed
    )
    for is_under_way, priority, seconds in (
        (False, Priority.CHANGE, SETTLE_SECONDS),
        (True, Priority.RESYNC, PROGRESS_SECONDS),
    ):
        progress = _Progress(kymas, manifests, is_under_way)
        controller.watches(kymas, when=progress.part_changed, priority=priority, after=seconds)
        controller.watches(
            manifests,
            to=_kyma_by(MANIFESTS_BY_KYMA),
            when=progress.manifest_changed,
            priority=priority,
            after=seconds,
        )
    for when, seconds in ((report_changed, PARTS_SETTLE_SECONDS), (was_observed, UNDER_WAY.total_seconds())):
        of_a_module = partial(is_of_a_module, policies, when)
        controller.watches(module_configs, to=_kyma_by(MODULE_CONFIGS_BY_KYMA), when=of_a_module, after=seconds)
        controller.watches(sync_resources, to=_kyma_by(SYNC_RESOURCES_BY_KYMA), when=of_a_module, after=seconds)
    controller.receives(
        DescriptorFound,
        to=lambda found: changed_offer(templates.get(ObjectKey(found.namespace, found.template))),
        priority=Priority.CHANGE,
    )
    controller.receives(ClusterReachable, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ResyncRequested, to=lambda signal: (signal.key,))
    controller.receives(UnclaimedChange, to=lambda signal: (signal.key,))
    controller.receives(ObjectChanged, to=changed_in_skr)
    snapshots = KymaSnapshots(
        manager=manager,
        kymas=kymas,
        manifests=manifests,
        module_configs=module_configs,
        sync_resources=sync_resources,
        policies=policies,
        crds=KymaCrds(crds),
        pull_secrets=pull_secrets,
        offers=offers,
        schedule=Schedule(releases, manager.clock, settings.rollout, policy_readable(manager.registry)),
        settings=settings,
    )
    actions = KymaActions(manager, connections, kymas, manifests)
    controller.steps(
        read=snapshots.read, plan=plan, apply=actions.apply, finish=actions.finish, unforeseen=actions.report
    )
    return controller


def _pull_secrets(manager: Manager, name: str) -> Informer[Secret] | None:
    return manager.informer(SECRETS, field_selector=f"metadata.name={name}") if name else None


@dataclass(frozen=True, slots=True)
class _Progress:
    """Changes of Kymas whose parts are being installed, so that further ones will follow, or of the others."""

    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    is_under_way: bool

    def part_changed(self, change: Change[Kyma]) -> bool:
        """Tell whether another domain wrote its condition."""
        return other_part_changed(change) and self._is_under_way(_name_of(change)) == self.is_under_way

    def manifest_changed(self, change: Change[Manifest]) -> bool:
        """Tell whether a Manifest's change matters to its Kyma. What fails does not wait for others."""
        if not manifest_state_changed(change):
            return False
        found = all(self._is_under_way(each.name) for each in _kyma_by(MANIFESTS_BY_KYMA)(change))
        return (is_progress(change) and found) == self.is_under_way

    def _is_under_way(self, name: str) -> bool:
        kyma = self.kymas.cache.get(ObjectKey(names.KCP_NAMESPACE, name))
        parts = {each.type for each in kyma.status.conditions} if kyma is not None else set()
        return not {WEBHOOK, CATALOG} <= parts or any(
            each.status.state in UNFINISHED for each in self.manifests.cache.by_index(MANIFESTS_BY_KYMA.name, name)
        )


def status_is_outdated(change: Change[Kyma]) -> bool:
    """Tell whether a Kyma's change is more than what its own controller wrote, and what other domains did.

    Those of a Kyma that is being deleted have it wait for them.
    """
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or generation_changed(change)
        or metadata_changed(old.metadata, new.metadata)
        or finalizer_lost(names.KYMA_FINALIZER, change)
        or (old.status.state is not State.EMPTY and new.status.state is State.EMPTY)
        or (new.metadata.being_deleted and other_part_changed(change))
    )


def other_part_changed(change: Change[Kyma]) -> bool:
    """Tell whether another domain wrote its condition. The SKR shows those in full, with their messages and times."""
    old, new = change.old, change.new
    return old is not None and new is not None and _other_conditions(old) != _other_conditions(new)


def manifest_state_changed(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest's change matters to its Kyma: what is wanted, or its state."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.metadata.generation != new.metadata.generation
        or metadata_changed(old.metadata, new.metadata)
        or _shown_state(old) != _shown_state(new)
        or old.status.observed_generation != new.status.observed_generation
        or _operation(old) != _operation(new)
    )


def is_progress(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest is on its way to be ready."""
    new = change.new
    return new is not None and new.status.state in {*UNFINISHED, State.READY}


def report_changed(change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a part of a Kyma is created, deleted, in another state, or in it for another cause."""
    old, new = change.old, change.new
    return old is None or new is None or _report(old) != _report(new)


def is_of_a_module(
    policies: Policies,
    when: Callable[[Change[ModuleConfig] | Change[SyncResource]], bool],
    change: Change[ModuleConfig] | Change[SyncResource],
) -> bool:
    """Tell whether a change matters, and is in the namespace of its module."""
    part = change.new or change.old
    return part is not None and when(change) and policies.is_in_place(part)


def was_observed(change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a part's state is about another version than before: a change that was under way may be in force."""
    old, new = change.old, change.new
    return old is not None and new is not None and old.status.observed_generation != new.status.observed_generation


def _report(part: ModuleConfig | SyncResource) -> tuple[object, ...]:
    """Return the state and what is wrong. A condition that is True has a new message with each change of the user."""
    wrong = [(each.type, each.reason, each.message) for each in part.status.conditions if each.status == "False"]
    return part.status.state, part.metadata.being_deleted, sorted(wrong)


def _other_conditions(kyma: Kyma) -> list[Condition]:
    return [condition for condition in kyma.status.conditions if condition.type not in OWN_CONDITIONS]


def _name_of(change: Change[Kyma]) -> str:
    return next(each.metadata.name for each in (change.new, change.old) if each is not None)


def _shown_state(manifest: Manifest) -> State:
    """Return the state of a Manifest as the status of its Kyma shows it: one whose intent was recorded is still new."""
    return State.PROCESSING if manifest.status.state is State.EMPTY else manifest.status.state


def _operation(manifest: Manifest) -> str:
    return manifest.status.last_operation.operation if manifest.status.last_operation is not None else ""


def _kyma_by(index: Index[T]) -> Callable[[Change[T]], Iterable[ObjectKey]]:
    """Return the function that finds the Kyma of a changed object, as an index does."""

    def kyma_of(change: Change[T]) -> Iterable[ObjectKey]:
        part = change.new if change.new is not None else change.old
        return [ObjectKey(names.KCP_NAMESPACE, name) for name in index.values(part)] if part is not None else ()

    return kyma_of
