"""The controller of Kymas: all its triggers, and what a reconcile does.

- its spec, labels, annotations and deletion, and the conditions that other domains write
- the ModuleTemplates and ModuleReleaseMetas of its modules, and their descriptors (`DescriptorFound`)
- the states of its Manifests, ModuleConfigs and SyncResources
- the Kyma CRD and the image pull Secret in KCP: all Kymas
- the Kyma CR in its SKR (`ObjectChanged`), other changes there and lost events (`UnclaimedChange`, `ResyncRequested`)
- its SKR can be reached again, or is another cluster (`ClusterReachable`, `ClusterReplaced`)
- ModuleConfigs of a module can't be written in its namespace, or again (`ModuleConfigsWritten`)
- the intervals in `settings`, and times that the status names
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from kube_runtime import (
    ApiError,
    Causes,
    Change,
    Client,
    Controller,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Result,
)
from kube_runtime.informer import Index
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed, metadata_changed, versions
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
    ClusterReachable,
    ClusterReplaced,
    DescriptorFound,
    ModuleConfigsWritten,
    ObjectChanged,
    ObjectReference,
    ResyncRequested,
    UnclaimedChange,
)
from lifecycle_manager.kyma import rules
from lifecycle_manager.kyma.crd import crd_changed
from lifecycle_manager.kyma.deletion.apply import KymaDeletion
from lifecycle_manager.kyma.pull_secret import data_changed
from lifecycle_manager.kyma.snapshot import KymaSnapshot, KymaSnapshots, KymaState, SkrView
from lifecycle_manager.kyma.status import OWN_CONDITIONS, failed_status, internal_error_status, status_of
from lifecycle_manager.kyma.wanted import ModuleChange, wanted_of
from lifecycle_manager.kyma.writes import KymaWrites
from lifecycle_manager.module_catalog.affected import (
    is_for_rollouts,
    kymas_using_release,
    kymas_using_template,
    offer_changed,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.options.kymas import KymaSettings
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager_api import (
    ApiObject,
    Condition,
    Kyma,
    KymaStatus,
    Manifest,
    ModuleConfig,
    ModuleTemplate,
    State,
    SyncResource,
    names,
)

T = TypeVar("T", bound=ApiObject)

SKR_KYMA = ObjectReference(KYMAS.group, KYMAS.kind, names.SKR_NAMESPACE, names.DEFAULT_KYMA_NAME)

SETTLE_SECONDS = 0.2
"""How long to wait for further changes: the parts of a Kyma often change several at a time."""
PARTS_SETTLE_SECONDS = 1.0
"""The same for ModuleConfigs and SyncResources: most changes are in force by then, and need no write of the status."""


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

    # Users may have changed something while nobody took events: before what is only checked.
    controller.starts_with(kymas.cache.keys, priority=Priority.CHANGE)
    controller.watches(kymas, when=status_is_outdated)
    controller.watches(seen.crds.informer, to=all_kymas, when=crd_changed, priority=Priority.RESYNC)
    if seen.pull_secrets is not None:
        controller.watches(seen.pull_secrets, to=all_kymas, when=data_changed, priority=Priority.RESYNC)
    controller.watches(templates, to=lambda change: changed_offer(change.new or change.old), when=offer_changed)
    controller.watches(
        releases, to=lambda change: map(KYMAS.key_of, kymas_using_release(change, kymas=kymas)), when=release_changed
    )
    controller.watches(kymas, when=other_part_changed, after=SETTLE_SECONDS)
    controller.watches(manifests, to=kyma_of_manifest, when=manifest_state_changed, after=SETTLE_SECONDS)
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
    controller.receives(ClusterReplaced, to=lambda signal: (signal.key,), priority=Priority.CHANGE)
    controller.receives(ResyncRequested, to=lambda signal: (signal.key,))
    controller.receives(ModuleConfigsWritten, to=lambda signal: (signal.key,), priority=Priority.RESYNC)
    controller.receives(UnclaimedChange, to=lambda signal: (signal.key,))
    controller.receives(ObjectChanged, to=changed_in_skr)

    reconciler = KymaReconciler(seen, connections, KymaWrites(manager, kymas, manifests))
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report)
    return controller


@dataclass(eq=False, slots=True)
class _Done:
    """How far a reconcile came: what is known by now, and what was done, by upstream's names in the metric."""

    seen: KymaSnapshot
    reasons: tuple[str, ...] = ()
    is_created: bool = False

    def after(self, reason: str, **known: Any) -> None:
        self.seen, self.reasons = replace(self.seen, **known), (*self.reasons, reason)


class KymaReconciler:
    """Brings a Kyma and its SKR to what is wanted; the deletion of a Kyma has stages of its own.

    A Kyma gets the Kyma CRD and a Kyma CR in its SKR, once; from then on the `spec` of that CR belongs to the users and
    is only read. The modules in it become Manifests.

    After the SKR refused a write, nothing more is written there. If its Kyma CR was read, the modules are changed all
    the same; then the status says what was refused, and the reconcile is retried. Where KCP refuses the change of
    a module, the others are changed and the status is written, and the reconcile is retried.
    """

    def __init__(self, snapshots: KymaSnapshots, connections: Connections, writes: KymaWrites) -> None:
        self.snapshots, self.connections, self.writes = snapshots, connections, writes
        self.deletion = KymaDeletion(snapshots, connections, writes)

    async def reconcile(self, key: ObjectKey, causes: Causes, state: KymaState) -> Result:
        """Reconcile a Kyma. Raises KubeError."""
        kyma = self.snapshots.kymas.get(key)
        if kyma is not None and kyma.metadata.being_deleted:
            return await self.deletion.reconcile(key, causes, state)
        seen = self.snapshots.read(key, causes, state)
        if seen is None or seen.kyma.metadata.is_paused:
            return Result()  # not even its SKR is read
        done = _Done(seen)
        if names.KYMA_FINALIZER not in seen.kyma.metadata.finalizers:  # without it nothing may be done in the SKR
            done.after("labels_and_finalizers_update", kyma=await self.writes.add_finalizer(seen.kyma))
        try:
            async with self.connections.to(key.name) as skr:
                inner = await self._introduced(skr, done, state)
                if inner is None:  # a user was faster: that Kyma CR is read at once
                    state.repeats += 1
                    return Result(rules.pause(done.seen, repeats=state.repeats), done.reasons)
                seen = await self._updated(skr, done, inner, state)
                wanted = wanted_of(seen, inner.spec)
                shown = status_of(seen, wanted)
                if shown.in_skr is not None:
                    await self.writes.write_skr_status(skr, inner, shown.in_skr)
        except (KubeError, SkrAccessError) as error:
            return await self._failed(done, error, state)
        refused = await self._refused(seen.kyma, wanted.changes)
        status = shown.in_kcp if refused is None else rules.still_listed(seen, shown.in_kcp, wanted.changes)
        state.repeats = seen.repeats + 1 if done.is_created or rules.is_held(inner) else 0
        await self._write_status(seen.kyma, status)
        if refused is not None:
            raise refused
        repeats = state.repeats if rules.is_held(inner) else 0
        return Result(rules.pause(seen, again=shown.again, repeats=repeats), done.reasons)

    async def _introduced(self, skr: Client, done: "_Done", state: KymaState) -> Kyma | None:
        """Return the Kyma CR of the SKR, created if there was none; None where a user created one meanwhile."""
        done.seen = await self.snapshots.read_skr(skr, done.seen, state)
        if (inner := rules.own_kyma(done.seen)) is None:
            await self._install_crd(skr, done)
            inner = await self.writes.create_kyma(skr, done.seen.kyma, is_replaced=rules.is_replaced(done.seen))
            done.after("initial_state_handling", skr=SkrView(inner))
            done.is_created = True
        return inner

    async def _updated(self, skr: Client, done: "_Done", inner: Kyma, state: KymaState) -> KymaSnapshot:
        """Bring what an SKR has beside its modules to what is wanted."""
        if done.seen.pull_secret is not None:
            secret = await self.writes.copy_pull_secret(skr, done.seen.pull_secret)
            done.seen, state.pull_secret = replace(done.seen, pull_secret=secret), secret.copy
        if done.seen.needs_crd:
            await self._install_crd(skr, done)
        state.is_replaced = False
        if rules.is_held(inner):
            await self.writes.release_skr_kyma(skr, inner)
            done.after("finalizers_removal_from_remote_kyma")
        if correction := rules.correction(done.seen.kyma, inner):
            await self.writes.correct(skr, correction)
        return done.seen

    async def _failed(self, done: "_Done", error: Exception, state: KymaState) -> Result:
        """End a reconcile whose SKR can't be read or written. Raises KubeError."""
        seen, changes = done.seen, rules.changes_after(done.seen, error)
        refused = await self._refused(seen.kyma, changes)
        status, again = failed_status(seen, failure_of(error), changes if refused is None else ())
        state.repeats = seen.repeats + done.is_created
        await self._write_status(seen.kyma, status)
        if isinstance(error, KubeError):
            raise error
        return Result(rules.pause(seen, error, again), done.reasons)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.snapshots.kymas.get(key)
        if kyma is not None:
            status = internal_error_status(kyma, failure_of(error), self.snapshots.manager.clock.now())
            await self._write_status(kyma, status)

    async def _write_status(self, kyma: Kyma, status: KymaStatus) -> None:
        if status != kyma.status:
            await self.writes.write_status(kyma, status)

    async def _install_crd(self, skr: Client, done: "_Done") -> None:
        await self.writes.install_crd(skr, done.seen.crd)
        done.after("crds_sync", installed_crd=done.seen.crd.digest)

    async def _refused(self, kyma: Kyma, changes: Sequence[ModuleChange]) -> Exception | None:
        """Change modules; return the first refusal of KCP. Raises KubeError where it does not answer."""
        try:
            await self.writes.change_modules(kyma, changes)
        except ApiError as refusal:
            return refusal
        return None


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


def report_changed(change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a part of a Kyma is created, deleted, in another state, or in it for another cause."""
    old, new = change.old, change.new
    return old is None or new is None or _report(old) != _report(new)


def is_of_a_module(policies: Policies, change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a change matters, and is in the namespace of its module."""
    part = change.new or change.old
    return part is not None and (report_changed(change) or was_observed(change)) and policies.is_in_place(part)


def was_observed(change: Change[ModuleConfig] | Change[SyncResource]) -> bool:
    """Tell whether a part's state is about another version than before: a change may be in force."""
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
