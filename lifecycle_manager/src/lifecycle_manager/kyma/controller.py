"""The controller of Kymas and all its triggers.

- its spec, labels, annotations and deletion, and the conditions that other domains write
- the ModuleTemplates and ModuleReleaseMetas of its modules, and their descriptors (`DescriptorFound`)
- the states of its Manifests, ModuleConfigs and SyncResources
- the Kyma CRD and the image pull Secret in KCP: all Kymas
- the Kyma CR in its SKR (`ObjectChanged`), other changes there and lost events (`UnclaimedChange`, `ResyncRequested`)
- its SKR can be reached again (`ClusterReachable`)
- ModuleConfigs of a module can't be written in its namespace, or again (`ModuleConfigsWritten`)
- the intervals in `settings`, and times that `plan` names
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kube_runtime import Change, Controller, Informer, Manager, ObjectKey, Priority
from kube_runtime.informer import Index
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed, metadata_changed, versions
from lifecycle_manager.contract.conditions import CATALOG, WEBHOOK
from lifecycle_manager.contract.indexes import (
    MANIFESTS_BY_KYMA,
    MODULE_CONFIGS_BY_KYMA,
    SYNC_RESOURCES_BY_KYMA,
)
from lifecycle_manager.contract.resources import (
    KYMAS,
    MODULE_TEMPLATES,
    DatedReleaseMeta,
)
from lifecycle_manager.contract.signals import (
    CatalogRecorded,
    ClusterReachable,
    DescriptorFound,
    ModuleConfigsWritten,
    ObjectChanged,
    ObjectReference,
    ResyncRequested,
    UnclaimedChange,
)
from lifecycle_manager.kyma.apply import KymaActions
from lifecycle_manager.kyma.crd import crd_changed
from lifecycle_manager.kyma.module_status import UNDER_WAY
from lifecycle_manager.kyma.plan import plan
from lifecycle_manager.kyma.pull_secret.plan import data_changed
from lifecycle_manager.kyma.settings import KymaSettings
from lifecycle_manager.kyma.snapshot import KymaSnapshots, KymaState
from lifecycle_manager.kyma.status import OWN_CONDITIONS
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_catalog.affected import (
    is_for_rollouts,
    kymas_using_release,
    kymas_using_template,
    offer_changed,
)
from lifecycle_manager.object_set import Policies
from lifecycle_manager.skr import Connections, SkrAccessError
from lifecycle_manager_api import (
    ApiObject,
    Condition,
    Kyma,
    Manifest,
    ModuleConfig,
    ModuleTemplate,
    State,
    SyncResource,
    names,
)

T = TypeVar("T", bound=ApiObject)

UNFINISHED = frozenset({State.EMPTY, State.PROCESSING})
SKR_KYMA = ObjectReference(KYMAS.group, KYMAS.kind, names.SKR_NAMESPACE, names.DEFAULT_KYMA_NAME)

SETTLE_SECONDS = 0.2
"""How long to wait for further changes: the parts of a Kyma often change several at a time."""
PROGRESS_SECONDS = 3.0
"""How long to wait for them while other parts of a new Kyma, or of a new version, are under way.

What has to be done for other Kymas comes first, then: of thousands of new clusters, none is shown step by step.
"""
PARTS_SETTLE_SECONDS = UNDER_WAY.total_seconds()
"""The same for ModuleConfigs and SyncResources: nobody waits for what the Kyma says of them, and there may be many."""


def setup(
    manager: Manager, connections: Connections, *, offers: Offers, settings: KymaSettings
) -> Controller[ObjectKey, KymaState]:
    seen = KymaSnapshots(manager, connections, offers, settings)
    kymas, manifests, releases = seen.kymas, seen.manifests, seen.releases
    templates = manager.informer(MODULE_TEMPLATES)
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

    controller.starts_with(kymas.cache.keys)
    controller.watches(kymas, when=status_is_outdated)
    controller.watches(seen.crds.informer, to=all_kymas, when=crd_changed, priority=Priority.RESYNC)
    if seen.pull_secrets is not None:
        controller.watches(seen.pull_secrets, to=all_kymas, when=data_changed, priority=Priority.RESYNC)
    controller.watches(templates, to=lambda change: changed_offer(change.new or change.old), when=offer_changed)
    controller.watches(
        releases, to=lambda change: map(KYMAS.key_of, kymas_using_release(change, kymas=kymas)), when=release_changed
    )
    for is_under_way, priority, seconds in (
        (False, Priority.CHANGE, SETTLE_SECONDS),
        (True, Priority.RESYNC, PROGRESS_SECONDS),
    ):
        progress = _Progress(kymas, manifests, is_under_way)
        controller.watches(kymas, when=progress.part_changed, priority=priority, after=seconds)
        controller.watches(
            manifests, to=kyma_of_manifest, when=progress.manifest_changed, priority=priority, after=seconds
        )
    of_a_module = partial(is_of_a_module, seen.policies)
    by_config, by_resource = kymas_by(MODULE_CONFIGS_BY_KYMA), kymas_by(SYNC_RESOURCES_BY_KYMA)
    controller.watches(seen.module_configs, to=by_config, when=of_a_module, after=PARTS_SETTLE_SECONDS)
    controller.watches(seen.sync_resources, to=by_resource, when=of_a_module, after=PARTS_SETTLE_SECONDS)
    controller.receives(
        DescriptorFound,
        to=lambda found: changed_offer(templates.get(ObjectKey(found.namespace, found.template))),
        priority=Priority.CHANGE,
    )
    controller.receives(ClusterReachable, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ResyncRequested, to=lambda signal: (signal.key,))
    controller.receives(ModuleConfigsWritten, to=lambda signal: (signal.key,), priority=Priority.RESYNC)
    controller.receives(UnclaimedChange, to=lambda signal: (signal.key,))
    controller.receives(ObjectChanged, to=changed_in_skr)

    def note(recorded: CatalogRecorded) -> None:
        controller.state_or_new(recorded.key).recorded = recorded

    manager.on(CatalogRecorded, note)
    actions = KymaActions(manager, connections, kymas, manifests)
    controller.steps(read=seen.read, plan=plan, apply=actions.apply, finish=actions.finish, unforeseen=actions.report)
    return controller


@dataclass(frozen=True, slots=True)
class _Progress:
    """Changes of Kymas whose parts are being installed, so that further ones will follow, or of the others."""

    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    is_under_way: bool

    def part_changed(self, change: Change[Kyma]) -> bool:
        """Tell whether another domain wrote its condition."""
        return other_part_changed(change) and self._is_under_way(versions(change)[0].metadata.name) == self.is_under_way

    def manifest_changed(self, change: Change[Manifest]) -> bool:
        """Tell whether a Manifest's change matters to its Kyma. What fails does not wait for others."""
        if not manifest_state_changed(change):
            return False
        found = all(self._is_under_way(each.name) for each in kyma_of_manifest(change))
        return (is_progress(change) and found) == self.is_under_way

    def _is_under_way(self, name: str) -> bool:
        kyma = self.kymas.cache.get(ObjectKey(names.KCP_NAMESPACE, name))
        parts = {each.type for each in kyma.status.conditions} if kyma is not None else set()
        return not {WEBHOOK, CATALOG} <= parts or any(
            is_unfinished(each) for each in self.manifests.cache.by_index(MANIFESTS_BY_KYMA.name, name)
        )


def release_changed(change: Change[DatedReleaseMeta]) -> bool:
    """Tell whether a ModuleReleaseMeta changed for its Kymas; a version that is rolled out is released to each."""
    return offer_changed(change) and not is_for_rollouts(change)


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
        or finalizer_removed(names.KYMA_FINALIZER, change)
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
        old is None or new is None or _shown_of(old) != _shown_of(new) or metadata_changed(old.metadata, new.metadata)
    )


def is_unfinished(manifest: Manifest) -> bool:
    """Tell whether a Manifest is being installed, or says nothing yet of what is wanted now."""
    status, metadata = manifest.status, manifest.metadata
    is_outdated = status.state is State.READY and status.observed_generation != metadata.generation
    return status.state in UNFINISHED or (is_outdated and not metadata.is_paused)


def is_progress(change: Change[Manifest]) -> bool:
    """Tell whether a Manifest is on its way to be ready."""
    new = change.new
    return new is not None and new.status.state in {*UNFINISHED, State.READY}


def report_changed(change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a part of a Kyma is created, deleted, in another state, or in it for another cause."""
    old, new = change.old, change.new
    return old is None or new is None or _report(old) != _report(new)


def is_of_a_module(policies: Policies, change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a change matters, and is in the namespace of its module."""
    part = change.new or change.old
    return part is not None and (report_changed(change) or was_observed(change)) and policies.is_in_place(part)


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


def _shown_of(manifest: Manifest) -> tuple[object, ...]:
    """Return what the status of a Kyma depends on: a Manifest whose intent was recorded is still new."""
    status, operation = manifest.status, manifest.status.last_operation
    state = State.PROCESSING if status.state is State.EMPTY else status.state
    what = operation.operation if operation is not None else ""
    return manifest.metadata.generation, state, status.observed_generation, status.release, what


def kymas_by(index: Index[T]) -> Callable[[Change[T]], Iterable[ObjectKey]]:
    """Return the function that finds the Kyma of a changed object, as an index does."""

    def kymas_of(change: Change[T]) -> Iterable[ObjectKey]:
        return [ObjectKey(names.KCP_NAMESPACE, name) for name in index.values(versions(change)[0])]

    return kymas_of


kyma_of_manifest = kymas_by(MANIFESTS_BY_KYMA)
