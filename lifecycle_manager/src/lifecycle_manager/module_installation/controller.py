"""The controller of Manifests: settings, triggers, and one reconcile from snapshot to status."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from kube_runtime import (
    Causes,
    Change,
    Client,
    Clock,
    Controller,
    EventRecorder,
    Informer,
    Manager,
    ObjectKey,
    Priority,
    Result,
)
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed, metadata_changed
from lifecycle_manager.contract.indexes import BY_CHANNEL, BY_TEMPLATE, MANIFESTS_BY_KYMA
from lifecycle_manager.contract.options import Count, Texts, option, restricted_modules_option
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_TEMPLATES,
    SECRETS,
    Secret,
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
from lifecycle_manager.module_catalog import (
    Offers,
    is_mandatory_manifest,
    kyma_of_manifest,
    module_of,
    module_of_manifest,
)
from lifecycle_manager.module_catalog.affected import kymas_using_template, offer_changed
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_installation.apply import ManifestState, Neighbours, Services, Steps
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.module_cr import default_cr
from lifecycle_manager.module_installation.plan import Done, RemoveFinalizer, plan
from lifecycle_manager.module_installation.pull_secrets import DEPLOYER
from lifecycle_manager.module_installation.rendering import Renderings
from lifecycle_manager.module_installation.snapshot import Options, Snapshot, inventory_of, known_inventory
from lifecycle_manager.object_set import Record, RecordingFailed, entries_of
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager.object_set.inventory import Identity, identities
from lifecycle_manager.object_set.policy import Policies, module_of_policy, policy_changed
from lifecycle_manager.object_set.repairs import CONTESTED, as_seen, seen_in
from lifecycle_manager.object_set.reporting import READY
from lifecycle_manager.oci import ObjectStore
from lifecycle_manager.process.telemetry import LongReconciles
from lifecycle_manager.skr import Connections, ObservedObject, SkrAccessError, SkrFailure, failure_of
from lifecycle_manager.takeover import former
from lifecycle_manager_api import Kyma, Manifest, ManifestStatus, ModuleTemplate, find, names

log = structlog.get_logger("manifest")

RULES_SECONDS = 2.0
"""How long an API server may take to use the rules of a webhook that were just written."""

Concern = Literal["module-cr", "of-its-kind", "object"]


@dataclass(frozen=True, slots=True)
class ManifestSettings(Options):
    """Options of this controller. `restricted`: the defaults of a ModulePolicy apply to modules without one.

    `injects_data`: Secrets of the module DEPLOYER get data of KCP.
    """

    concurrency: Count = option(50, "max-concurrent-manifest-reconciles", "concurrent reconciles of Manifests")
    default_policy: Literal["unrestricted", "restricted"] = option(
        "unrestricted",
        "default-module-policy",
        "what Manifests of modules without a ModulePolicy may contain: everything, or what the defaults of a "
        "ModulePolicy allow, as is always the case for SyncResources",
    )
    restricted_modules: Texts = restricted_modules_option()

    @property
    def restricted(self) -> bool:
        """Whether the defaults of a ModulePolicy apply to modules without one."""
        return self.default_policy == "restricted"

    @property
    def injects_data(self) -> bool:
        """Whether Secrets of the module DEPLOYER get data of KCP."""
        return DEPLOYER in self.restricted_modules


def setup(
    manager: Manager,
    connections: Connections,
    offers: Offers,
    store: ObjectStore,
    logins: Logins,
    settings: ManifestSettings,
) -> Controller[ObjectKey, ManifestState]:
    """Declare the controller with all that triggers it."""
    namespace = names.KCP_NAMESPACE
    manifests = manager.informer(MANIFESTS, namespace=namespace, indexes=[MANIFESTS_BY_KYMA])
    templates = manager.informer(MODULE_TEMPLATES, namespace=namespace)
    releases = manager.informer(DATED_RELEASE_METAS, namespace=namespace)
    kymas = manager.informer(KYMAS, namespace=namespace, indexes=[BY_TEMPLATE, BY_CHANNEL])

    policies = Policies.watched_by(manager)

    def owner(key: ObjectKey) -> str:
        manifest = manifests.get(key)
        return (kyma_of_manifest(manifest) or key.name) if manifest is not None else ""

    def of_kyma(name: str) -> Iterable[ObjectKey]:
        return map(MANIFESTS.key_of, manifests.by_index(MANIFESTS_BY_KYMA, name))

    def with_template(template: ModuleTemplate | None) -> Iterable[ObjectKey]:
        for kyma in kymas_using_template(template, kymas=kymas, releases=releases) if template is not None else ():
            for manifest in manifests.by_index(MANIFESTS_BY_KYMA, kyma.metadata.name):
                if template is not None and module_of_manifest(manifest) == module_of(template):
                    yield MANIFESTS.key_of(manifest)

    def of_module(module: str) -> Iterable[ObjectKey]:
        return [MANIFESTS.key_of(each) for each in manifests.list() if module_of_manifest(each) == module]

    def of_object(change: ObjectChanged) -> Iterable[ObjectKey]:
        found = manifests.by_index(MANIFESTS_BY_KYMA, change.kyma)
        return [MANIFESTS.key_of(each) for each in found if affected_part(each, change.reference, settings.namespace)]

    controller = manager.controller(
        "manifest",
        state=ManifestState,
        owner=owner,
        concurrency=settings.concurrency,
        max_per_owner=3,
        not_retried=(SkrAccessError,),
    )
    controller.watches(manifests, when=spec_changed)
    controller.watches(templates, to=lambda change: with_template(change.new or change.old), when=offer_changed)
    controller.watches(policies.informer, to=lambda it: of_module(module_of_policy(it)), when=policy_changed)
    data = watch_data(manager, controller, of_module) if settings.injects_data else None
    controller.receives(
        DescriptorFound,
        to=lambda found: with_template(templates.get(ObjectKey(found.namespace, found.template))),
        priority=Priority.CHANGE,
    )
    controller.receives(ObjectChanged, to=of_object)
    controller.receives(
        ResyncRequested, to=lambda it: of_kyma(it.kyma), priority=Priority.CHANGE, cause=lambda _: ReadScope.EVERYTHING
    )
    controller.receives(
        ClusterReplaced, to=lambda it: of_kyma(it.kyma), priority=Priority.CHANGE, cause=lambda _: ReadScope.EVERYTHING
    )
    controller.receives(ClusterReachable, to=lambda it: of_kyma(it.kyma), priority=Priority.CHANGE)
    controller.receives(
        WebhookRulesChanged, to=lambda it: of_kyma(it.kyma), priority=Priority.CHANGE, after=RULES_SECONDS
    )

    def enqueue_neighbour(key: ObjectKey) -> None:
        controller.enqueue(key, ReadScope.EVERYTHING)

    neighbours = Neighbours(manifests, controller.state, enqueue_neighbour)
    renderings = Renderings(settings.namespace, settings.pull_secret)
    reconciler = ManifestReconciler(
        manager.client,
        manager.clock,
        manager.events,
        manifests,
        kymas=kymas,
        connections=connections,
        offers=offers,
        policies=policies,
        restricted=settings.restricted,
        services=Services(neighbours, store, logins, renderings, data, settings),
        durations=LongReconciles(manager.registry),
    )
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report, foreseen=(RecordingFailed,))
    return controller


def spec_changed(change: Change[Manifest]) -> bool:
    """Tell whether more than the status of a Manifest changed."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or generation_changed(change)
        or metadata_changed(old.metadata, new.metadata)
        or finalizer_removed(names.MANIFEST_FINALIZER, change)
    )


def watch_data(
    manager: Manager,
    controller: Controller[ObjectKey, ManifestState],
    of_module: Callable[[str], Iterable[ObjectKey]],
) -> Informer[Secret]:
    """Return the Secrets of KCP whose data the module DEPLOYER may have; each change is brought to the clusters."""
    label = f"{names.MODULE_NAME}={DEPLOYER}"
    data = manager.informer(SECRETS, namespace=names.KCP_NAMESPACE, label_selector=label)
    controller.watches(data, to=lambda _: of_module(DEPLOYER), when=data_changed)
    return data


def data_changed(change: Change[Secret]) -> bool:
    """Tell whether there are other data in a Secret of KCP, or the Secret was created or deleted."""
    return change.old is None or change.new is None or change.old.data != change.new.data


def affected_part(
    manifest: Manifest, changed: ObjectReference, default_namespace: str = names.SKR_NAMESPACE
) -> Concern | None:
    """Return what an object is to a module: its default Module CR, another of its kind, one of its objects, or None."""
    wanted = default_cr(manifest, default_namespace)
    if wanted is not None and (wanted.group, wanted.kind) == (changed.group, changed.kind):
        same = (wanted.namespace, wanted.name) == (changed.namespace, changed.name)
        return "module-cr" if same else "of-its-kind"
    return "object" if tuple(changed) in {each.identity for each in inventory_of(manifest)} else None


@dataclass(frozen=True, eq=False)
class ManifestReconciler:
    """Keeps the module of one Manifest in its SKR as it is wanted."""

    kcp: Client
    clock: Clock
    events: EventRecorder
    manifests: Informer[Manifest]
    kymas: Informer[Kyma]
    connections: Connections
    offers: Offers
    policies: Policies
    restricted: bool
    services: Services
    durations: LongReconciles

    async def reconcile(self, key: ObjectKey, causes: Causes, state: ManifestState) -> Result:
        """Take the steps of a Manifest's plan. Raises KubeError or SkrAccessError after its status says so."""
        began = self.clock.monotonic()
        try:
            return await self._reconcile(key, causes, state)
        finally:
            self.durations.observe(key.name, self.clock.monotonic() - began)

    async def _reconcile(self, key: ObjectKey, causes: Causes, state: ManifestState) -> Result:
        manifest = self.manifests.get(key)
        if manifest is None:
            return Result()
        self._note(causes, manifest, state)
        seen = self._snapshot(manifest, state)

        def unreachable(written: Manifest, failure: SkrFailure) -> ManifestStatus:
            inventory = sorted({*seen.before, *state.inventory})
            return statuses.unreachable(written, inventory, failure.reason, failure.message, self.clock.now())

        record = self._record(manifest)
        skr = LazySkrClient(self.connections, kyma_of_manifest(manifest))
        steps = Steps(self.services, record, state, skr)
        end = await record.take_steps(seen, skr, plan=plan, apply=steps.apply, unreachable=unreachable)
        if isinstance(end, Done):
            await record.report(end.status)
            result = self._finish(state, end)
            return replace(result, reasons=(*steps.reasons, _finished(end.status)))
        if isinstance(end, RemoveFinalizer):
            await record.remove_finalizer(of_others=end.of_others)
            return Result(reasons=(*steps.reasons, "manifest_reconcile_finished"))
        state.check_all = True  # nothing was corrected in the meantime
        return Result()

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception; the inventory stays. Raises KubeError."""
        manifest = self.manifests.get(key)
        if manifest is not None:
            failure, known = failure_of(error), entries_of(manifest.status.synced)
            status = statuses.unreachable(manifest, known, failure.reason, failure.message, self.clock.now())
            await self._record(manifest).report(status)

    def _record(self, manifest: Manifest) -> Record[Manifest]:
        return Record(
            self.kcp,
            self.events,
            self.manifests,
            manifest,
            finalizer=names.MANIFEST_FINALIZER,
            former_finalizers=former.MANIFEST_FINALIZERS,
            action="Install",
        )

    def _note(self, causes: Causes, manifest: Manifest, state: ManifestState) -> None:
        """Note what triggered the reconcile: which objects to read, and what the reads have to show."""
        if causes.overflowed or ReadScope.EVERYTHING in causes:
            state.check_all = True
        for change in causes.of(ObjectChanged):
            concern = affected_part(manifest, change.reference, self.services.options.namespace)
            if concern is None or concern == "of-its-kind":
                continue
            now = self.clock.monotonic()
            if concern == "object" and not state.repairs.grants(change, now):
                note = state.repairs.contested(change)
                self.events.record(MANIFESTS, manifest, CONTESTED, note, type="Warning", action="Install")
            elif not state.announcements.announce(change, now=now):
                state.check_all = True

    def _snapshot(self, manifest: Manifest, state: ManifestState) -> Snapshot:
        inventory = known_inventory(manifest, state.inventory)
        announced: frozenset[Identity] = frozenset(each.object for each in state.announcements.of())
        template = self.offers.current().installed(module_of_manifest(manifest), manifest.spec.version)
        return Snapshot(
            manifest,
            self.clock.now(),
            self.clock.monotonic(),
            inventory,
            before=inventory,
            options=self.services.options,
            rules=self.policies.of_manifests(module_of_manifest(manifest), restricted=self.restricted),
            checks=template.spec.custom_state_check if template is not None else (),
            announced=announced & identities(inventory) if announced else announced,
            cluster_gone=self._is_cluster_gone(manifest),
            is_named=self._is_named(manifest),
        )

    def _is_named(self, manifest: Manifest) -> bool:
        """Tell whether the Kyma of a Manifest has it."""
        kyma = self.kymas.get(ObjectKey(manifest.metadata.namespace, kyma_of_manifest(manifest)))
        named = (each.manifest.metadata.name for each in kyma.status.modules if each.manifest) if kyma else ()
        return is_mandatory_manifest(manifest) or manifest.metadata.name in named

    def _is_cluster_gone(self, manifest: Manifest) -> bool:
        """Tell whether the access Secret of a Manifest's Kyma is gone, which matters once the Manifest is deleted."""
        kyma = kyma_of_manifest(manifest)
        return manifest.metadata.being_deleted and bool(kyma) and not self.connections.have_access(kyma)

    def _finish(self, state: ManifestState, end: Done) -> Result:
        state.check_all = state.check_all or end.check_all
        if end.applied is not None:
            end.applied.raise_first_failure()
            state.repairs.remember(end.applied.outcomes)
        wait = self._settle(state, end) if end.settles else None
        return Result(requeue_after=wait or end.requeue_after)

    def _settle(self, state: ManifestState, end: Done) -> float | None:
        """Return when to read again what events announced and this reconcile has not shown; None where it has."""
        announced = state.announcements.of()
        if not announced:
            return None
        shown = _shown(end)
        read = {each: shown.get(each.object, ObservedObject()) for each in announced}
        return state.announcements.settle(read, now=self.clock.monotonic())


def _finished(status: ManifestStatus) -> str:
    """Return upstream's name in the metric of requeues for the end of a reconcile."""
    ready = find(status.conditions, READY)
    return (
        "manifest_orphaned"
        if ready is not None and ready.reason == statuses.ORPHANED
        else "manifest_reconcile_finished"
    )


def _shown(end: Done) -> dict[ObjectReference, ObservedObject]:
    """Return the objects that a reconcile has read."""
    found = seen_in(end.applied.outcomes) if end.applied is not None else {}
    view = end.module_cr
    if view is not None and view.live:
        wanted = view.wanted
        found[ObjectReference(wanted.group, wanted.kind, wanted.namespace, wanted.name)] = as_seen(view.live)
    return found
