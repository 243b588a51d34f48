"""The controller of Manifests: what triggers a reconcile, and what a reconcile does.

A Manifest is reconciled when

- it changes, is deleted, or its finalizer is removed
- the template, descriptor or ModulePolicy of its module changes, or data that it gets from KCP
- an event reports a change of one of its objects or of its default Module CR: that object is read
- another module hands an object over to it
- its SKR answers again or is replaced, the webhook there has other rules, or all of it is to be read again
- it is being installed or removed (busy interval), or the interval has passed: every object is read

Limits: three Manifests of a cluster at once, repairs of one object (`object_set.repairs`), the size of what a source
holds (`oci`), and what a ModulePolicy allows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from kube_runtime import (
    Causes,
    Change,
    Controller,
    End,
    Informer,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Request,
    Result,
    TooManySteps,
)
from kube_runtime.controller.steps import MAX_STEPS
from kyma_oci import SourceError
from lifecycle_manager.contract.changes import finalizer_removed, generation_changed, metadata_changed
from lifecycle_manager.contract.indexes import (
    BY_CHANNEL,
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
    SECRETS,
    SYNC_RESOURCES,
    Secret,
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
from lifecycle_manager.contract.verdict import POLICY_VIOLATION
from lifecycle_manager.module_catalog.affected import kymas_using_template, offer_changed
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import rules
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_installation.apply import ManifestEngine, ModuleSet, current
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.neighbours import Neighbours
from lifecycle_manager.module_installation.plan import plan
from lifecycle_manager.module_installation.rendering import RenderedModule, Renderings
from lifecycle_manager.module_installation.snapshot import (
    ManifestReader,
    ManifestSnapshot,
    ManifestState,
    affected_part,
    is_left_alone,
    was_ready,
)
from lifecycle_manager.module_installation.steps import LeaveAlone, ManifestDone, ManifestEnd
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.object_set.engine import ObjectSet
from lifecycle_manager.object_set.others import OtherSets
from lifecycle_manager.object_set.owner_writes import OwnerWrites, RecordingFailed
from lifecycle_manager.object_set.policy import Policies, module_of_policy, policy_changed
from lifecycle_manager.object_set.repairs import CONTESTED
from lifecycle_manager.object_set.rules import Objection, left_by_policy, message_of, objection_to
from lifecycle_manager.options.modules import DEPLOYER, ManifestSettings
from lifecycle_manager.process.telemetry import LongReconciles
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.brake import DeletionBrake, deletion_continued
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Manifest, ModuleTemplate, names

CHANGED = "changed"
"""The cause of a reconcile that a resource triggered. Without a cause the process is new, or only time has passed."""


def setup(
    manager: Manager,
    connections: Connections,
    offers: Offers,
    store: ObjectStore,
    logins: Logins,
    settings: ManifestSettings,
) -> Controller[ObjectKey, ManifestState]:
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
    controller.starts_with(partial(_unfinished, manifests))  # before those that are as they should be
    controller.starts_with(manifests.cache.keys)
    controller.watches(manifests, when=spec_changed, cause=CHANGED)
    controller.watches(manifests, when=was_restored, cause=ReadScope.EVERYTHING)
    controller.watches(
        templates, to=lambda change: with_template(change.new or change.old), when=offer_changed, cause=CHANGED
    )
    controller.watches(
        policies.informer, to=lambda it: of_module(module_of_policy(it)), when=policy_changed, cause=CHANGED
    )
    controller.watches(
        kymas,
        to=lambda change: of_kyma(change.new.metadata.name) if change.new else (),
        when=deletion_continued,
        cause=CHANGED,
    )
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
    controller.receives(WebhookRulesChanged, to=lambda it: of_kyma(it.kyma), priority=Priority.CHANGE)

    writes = OwnerWrites(
        kcp=manager.client,
        events=manager.events,
        informer=manifests,
        finalizer=names.MANIFEST_FINALIZER,
        action="Install",
    )
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_KYMA])
    module_configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA])
    parts = OwnerWrites.of_sync_resources(manager, sync_resources)
    neighbours = Neighbours(manifests, controller.state, lambda key: controller.enqueue(key, ReadScope.EVERYTHING))
    reader = ManifestReader(
        manifests,
        kymas,
        DeletionBrake.watched_by(manager, connections, settings.brake),
        offers,
        policies,
        module_configs,
        sync_resources,
        manager.clock,
        settings,
        contested=lambda manifest, note: writes.record(manifest, CONTESTED, note),
        durations=LongReconciles(manager.registry),
    )
    engine = ManifestEngine(
        writes=writes,
        connections=connections,
        clock=manager.clock,
        unreachable=statuses.unreachable,
        neighbours=neighbours,
        other_sets=OtherSets(manifests, parts, module_configs, policies),
        store=store,
        logins=logins,
        renderings=Renderings(settings.namespace, settings.pull_secret),
        data=data,
        options=settings,
    )
    controller.reconciles(ManifestReconciler(reader, engine).reconcile, unforeseen=engine.report_unforeseen)
    return controller


@dataclass(frozen=True, eq=False)
class ManifestReconciler:
    """Installs, upgrades and removes the modules of Manifests."""

    reader: ManifestReader
    engine: ManifestEngine

    async def reconcile(self, key: ObjectKey, causes: Causes, state: ManifestState) -> Result:
        """Bring the module to the SKR, or remove it there, and write the status. Raises what failed."""
        async with Request(key, state, causes) as request:
            seen = await self.reader.read(request)
            if seen is None:
                return Result()
            module = ObjectSet(self.engine, request, seen)
            try:
                end = await self._carry_out(module, seen)
            except RecordingFailed:
                raise  # nothing is applied that is not recorded, and there is no status to write
            except SourceError as error:
                end = statuses.without_source(current(module, seen), error)
            except (KubeError, SkrAccessError) as error:
                end = statuses.failed(current(module, seen), error)
            result = await self.engine.finish(module, end)
        if end.error is not None:
            raise end.error
        return result

    async def _carry_out(self, module: ModuleSet, seen: ManifestSnapshot) -> ManifestEnd:
        """Do what is to be done in the SKR; return what to report."""
        if seen.resource.metadata.being_deleted:
            return await self._remove(module, seen)
        if is_left_alone(seen.resource):
            if rules.is_released(seen):
                return LeaveAlone()
            default = (seen.default_cr.entry,) if seen.default_cr is not None else ()
            await self.engine.release(module, (*seen.inventory, *default))
            return statuses.released(seen)
        source = rules.source_of(seen)
        if isinstance(source, End):
            return source
        return await self._install(module, seen, await self.engine.render(seen.resource, source))

    async def _install(self, module: ModuleSet, seen: ManifestSnapshot, rendering: RenderedModule) -> ManifestDone:
        """Bring the objects of the module to the SKR where they may be others there, and find out whether it runs."""
        seen = replace(seen, rendering=rendering)
        if (objection := objection_to(seen, rendering.objects, None)) is not None:
            return statuses.refused(seen, *objection)
        check_all, state = await self.engine.connect(module, seen, rendering), module.request.state
        seen = current(module, seen, next_check=state.next_check)
        if check_all or seen.announced or state.settled != rendering.fingerprint:
            found = await self.engine.bring(module, seen, rendering, check_all=check_all)
            if isinstance(found, Objection):
                return statuses.refused(current(module, seen), *found)
            seen = found
        if seen.applied is not None and seen.applied.failed:
            return statuses.installed(seen)
        if seen.applied is not None and (held := left_by_policy(seen.applied, seen.rules)):
            message = f"left in the cluster, because the module may not have it: {message_of(held)}"
            return statuses.refused(seen, POLICY_VIOLATION, message)
        return statuses.installed(await self.engine.judge(module, seen))

    async def _remove(self, module: ModuleSet, seen: ManifestSnapshot) -> ManifestEnd:
        """Take the steps of the removal, in the order that `plan` states."""
        for _ in range(MAX_STEPS):
            step = plan(seen)
            if isinstance(step, End):
                return step
            seen = await self.engine.take(module, seen, step)
        raise TooManySteps(f"not removed after {MAX_STEPS} steps; the next would be {plan(seen)!r}")


def _unfinished(manifests: Informer[Manifest]) -> Iterable[ObjectKey]:
    return (MANIFESTS.key_of(each) for each in manifests.cache.list() if not was_ready(each))


def spec_changed(change: Change[Manifest]) -> bool:
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or generation_changed(change)
        or metadata_changed(old.metadata, new.metadata)
        or finalizer_removed(names.MANIFEST_FINALIZER, change)
    )


def was_restored(change: Change[Manifest]) -> bool:
    """Tell whether the status of a Manifest may be that of a backup, and say nothing of the cluster as it is."""
    return change.new is not None and was_ready(change.new) and (change.old is None or change.may_be_restored)


def watch_data(
    manager: Manager,
    controller: Controller[ObjectKey, ManifestState],
    of_module: Callable[[str], Iterable[ObjectKey]],
) -> Informer[Secret]:
    """Return the Secrets of KCP whose data the module DEPLOYER may have; each change is brought to the clusters."""
    label = f"{names.MODULE_NAME}={DEPLOYER}"
    data = manager.informer(SECRETS, namespace=names.KCP_NAMESPACE, label_selector=label)
    controller.watches(data, to=lambda _: of_module(DEPLOYER), when=data_changed, cause=CHANGED)
    return data


def data_changed(change: Change[Secret]) -> bool:
    """Tell whether there are other data in a Secret of KCP, or the Secret came or went."""
    return change.old is None or change.new is None or change.old.data != change.new.data
