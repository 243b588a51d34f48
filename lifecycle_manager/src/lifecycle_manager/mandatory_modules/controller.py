"""The two controllers of mandatory modules: their triggers and settings. Neither keeps state for a key."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from kube_runtime import Causes, Change, Controller, Informer, Manager, ObjectKey, Priority, Result
from kube_runtime.informer import Index
from lifecycle_manager.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.kyma_changes import generation_changed, kyma_changed, versions
from lifecycle_manager.mandatory_modules.apply import Installation, set_condition, set_finalizer
from lifecycle_manager.mandatory_modules.plan import SetFinalizer, Wait, plan_installation, plan_retirement
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot, Release, RetirementSnapshot
from lifecycle_manager.mandatory_modules.status import DECIDED, failed, is_reported
from lifecycle_manager.module_catalog import (
    Offers,
    is_mandatory_manifest,
    kyma_of_manifest,
    module_of,
    module_of_manifest,
)
from lifecycle_manager.module_catalog.concerned import (
    concerned_by_release,
    concerned_by_template,
    offer_changed,
    watch_offer,
)
from lifecycle_manager.resources import DATED_RELEASE_METAS, KYMAS, MANIFESTS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.signals import ClusterReachable, DescriptorFound
from lifecycle_manager_api import Manifest, ModuleReleaseMeta, ModuleTemplate, names

log = structlog.get_logger("mandatory_modules")

SETTLE_SECONDS = 0.2
"""Manifests of one Kyma often change several at a time: one reconcile for all of them."""


@dataclass(frozen=True, slots=True)
class MandatorySettings:
    """The settings of both controllers."""

    interval_seconds: float = 300.0
    installation_concurrency: int = 20
    retirement_concurrency: int = 2


class ReleaseKey(NamedTuple):
    """A ModuleTemplate or ModuleReleaseMeta in KCP."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def _mandatory_module(manifest: Manifest) -> Iterable[str]:
    if is_mandatory_manifest(manifest):
        yield module_of_manifest(manifest)


MANIFESTS_BY_MANDATORY_MODULE: Index[Manifest] = Index("mandatory", _mandatory_module)
"""Manifests of mandatory modules by their module."""


def setup(
    manager: Manager, offers: Offers, settings: MandatorySettings
) -> tuple[Controller[ObjectKey, None], Controller[ReleaseKey, None]]:
    """Add both controllers: installation, whose keys are those of Kymas, and retirement."""
    return _setup_installation(manager, offers, settings), _setup_retirement(manager, offers, settings)


def _setup_installation(manager: Manager, offers: Offers, settings: MandatorySettings) -> Controller[ObjectKey, None]:
    kymas = manager.informer(KYMAS)
    templates, releases = manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS)
    manifests = manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_KYMA])
    controller: Controller[ObjectKey, None] = manager.controller(
        "mandatory-modules", concurrency=settings.installation_concurrency
    )

    def all_kymas_of_descriptor(found: DescriptorFound) -> Iterable[ObjectKey]:
        template = templates.get(ObjectKey(found.namespace, found.template))
        if template is None:
            return ()
        concerned = concerned_by_template(Change(None, template), templates=templates, releases=releases)
        return kymas.cache.keys() if concerned.mandatory else ()

    controller.watches(kymas, when=kyma_changed)
    watch_offer(controller, manager, concerns=lambda concerned: concerned.mandatory)
    controller.watches(manifests, to=_kyma_of, when=_mandatory_manifest_changed, after=SETTLE_SECONDS)
    controller.receives(DescriptorFound, to=all_kymas_of_descriptor, priority=Priority.RESYNC)
    controller.receives(
        ClusterReachable, to=lambda it: (ObjectKey(names.KCP_NAMESPACE, it.kyma),), priority=Priority.CHANGE
    )

    installation = Installation(manager.client, manifests, manager.events)

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Apply and delete Manifests of one Kyma. Raises KubeError."""
        kyma = kymas.get(key)
        if kyma is None:
            return Result()
        snapshot = InstallationSnapshot(kyma, offers.current(), manifests.by_index(MANIFESTS_BY_KYMA, key.name))
        await installation.apply(plan_installation(snapshot), key.namespace)
        if is_reported(kyma):
            await set_condition(manager.client, kymas, kyma, DECIDED, now=manager.clock.now())
        return Result(requeue_after=settings.interval_seconds)

    async def report_failure(key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception as a condition of the Kyma. Raises KubeError."""
        if (kyma := kymas.get(key)) is not None:
            await set_condition(manager.client, kymas, kyma, failed(error), now=manager.clock.now())

    controller.reconciles(reconcile, unforeseen=report_failure)
    return controller


def _setup_retirement(manager: Manager, offers: Offers, settings: MandatorySettings) -> Controller[ReleaseKey, None]:
    templates, releases = manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS)
    manifests = manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_MANDATORY_MODULE])
    known = _Releases(templates, releases)
    controller: Controller[ReleaseKey, None] = manager.controller(
        "mandatory-modules-deletion",
        owner=lambda key: f"{key.kind} {key.name}",
        exists=lambda key: known.get(key) is not None,
        concurrency=settings.retirement_concurrency,
    )
    controller.watches(templates, to=lambda change: map(_key_of, versions(change)), when=offer_changed)
    controller.watches(releases, to=known.of_change, when=offer_changed)
    controller.watches(manifests, to=known.waiting_for, when=_mandatory_manifest_changed)
    controller.starts_with(lambda: map(_key_of, known.list()))

    async def reconcile(key: ReleaseKey, _causes: Causes, _state: None) -> Result:
        """Add or remove the finalizer of one release. Raises KubeError."""
        release = known.get(key)
        if release is None:
            return Result()
        left = manifests.by_index(MANIFESTS_BY_MANDATORY_MODULE, _module_of(release))
        match plan_retirement(RetirementSnapshot(release, offers.current(), left)):
            case Wait() as wait:
                log.info("waiting for Manifests of a mandatory module", release=str(key), manifests=wait.manifests)
                return Result(requeue_after=wait.requeue_after)
            case SetFinalizer() as step:
                await set_finalizer(manager.client, known.informer_of(key.kind), step)
        return Result()

    async def report_failure(key: ReleaseKey, error: Exception) -> None:
        """Report an unforeseen exception as an Event: releases have no conditions."""
        if (release := known.get(key)) is not None:
            _, reason, message = failed(error)
            manager.events.record(known.informer_of(key.kind).resource, release, reason, message, type="Warning")

    controller.reconciles(reconcile, unforeseen=report_failure)
    return controller


@dataclass(frozen=True, eq=False)
class _Releases:
    """Finds ModuleTemplates and ModuleReleaseMetas."""

    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]

    def informer_of(self, kind: str) -> Informer[Any]:
        """Return the informer of a kind."""
        return self.templates if kind == ModuleTemplate.KIND else self.releases

    def get(self, key: ReleaseKey) -> Release | None:
        """Return the object of a key."""
        found: Release | None = self.informer_of(key.kind).get(ObjectKey(key.namespace, key.name))
        return found

    def list(self) -> tuple[Release, ...]:
        """Return all of them."""
        return (*self.templates.cache.list(), *self.releases.cache.list())

    def of_change(self, change: Change[DatedReleaseMeta]) -> Iterable[ReleaseKey]:
        """Return the release, and the templates of its module: a mandatory release decides which one is held."""
        release = versions(change)[0]
        yield _key_of(release)
        for template in self.templates.cache.list() if concerned_by_release(change).mandatory else ():
            if module_of(template) == release.spec.module_name:
                yield _key_of(template)

    def waiting_for(self, change: Change[Manifest]) -> Iterable[ReleaseKey]:
        """Return the releases of a Manifest's module that are being deleted."""
        modules = {module_of_manifest(each) for each in versions(change)}
        return [_key_of(each) for each in self.list() if each.metadata.being_deleted and _module_of(each) in modules]


def _mandatory_manifest_changed(change: Change[Manifest]) -> bool:
    """Tell whether the Manifest of a mandatory module was created, deleted, or has another spec."""
    return is_mandatory_manifest(versions(change)[0]) and generation_changed(change)


def _kyma_of(change: Change[Manifest]) -> Iterable[ObjectKey]:
    manifest = versions(change)[0]
    if kyma := kyma_of_manifest(manifest):
        yield ObjectKey(manifest.metadata.namespace, kyma)


def _key_of(release: Release) -> ReleaseKey:
    return ReleaseKey(release.KIND, release.metadata.namespace, release.metadata.name)


def _module_of(release: Release) -> str:
    return release.spec.module_name if isinstance(release, ModuleReleaseMeta) else module_of(release)
