"""The two controllers of mandatory modules: their triggers, and what a reconcile does in KCP.

The SKRs are not involved, and neither keeps state for a key.

The Manifests of a Kyma are reconciled when

- the metadata of the Kyma changes, its SKR was read for the first time, or answers again
- a ModuleTemplate or ModuleReleaseMeta changes, or a descriptor is found: those of all Kymas
- a Manifest of a mandatory module is created or changed in its spec, any is gone, and at intervals

The finalizer of a ModuleTemplate or ModuleReleaseMeta is reconciled when

- it changes, or the ModuleReleaseMeta of its module does
- a Manifest of its module is created, deleted or changed, while it is being deleted

Limits: `MandatorySettings`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from kube_runtime import (
    Causes,
    Change,
    Controller,
    Manager,
    ObjectKey,
    Priority,
    Result,
)
from lifecycle_manager.contract.changes import generation_changed, kyma_changed, versions
from lifecycle_manager.contract.conditions import (
    MANDATORY_MODULES,
    ConditionContent,
    is_introduced,
    write_condition,
)
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MANIFESTS, MODULE_TEMPLATES
from lifecycle_manager.contract.signals import ClusterReachable, DescriptorFound
from lifecycle_manager.contract.writes import remove_finalizers, set_finalizers, write_each
from lifecycle_manager.mandatory_modules import rules
from lifecycle_manager.mandatory_modules.snapshot import (
    MANIFESTS_BY_MANDATORY_MODULE,
    MandatoryReader,
    ReleaseKey,
    key_of_release,
)
from lifecycle_manager.mandatory_modules.status import CANNOT_BE_INSTALLED, status_of
from lifecycle_manager.module_catalog.affected import offer_changed, watch_offer
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, kyma_of_manifest
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager.options.kymas import MandatorySettings, RolloutSettings
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager.skr.failure import failed
from lifecycle_manager_api import Kyma, Manifest, names

FIELD_MANAGER = "lifecycle-manager-mandatory-modules"
WAITING_SECONDS = 30.0
"""How often it is checked whether a release that is being deleted still has to be there."""
SETTLE_SECONDS = 0.2
"""Manifests of one Kyma often change several at a time: one reconcile for all of them."""


def setup(
    manager: Manager, offers: Offers, settings: MandatorySettings, rollout: RolloutSettings
) -> tuple[Controller[ObjectKey, None], Controller[ReleaseKey, None]]:
    """Add both controllers: installation, whose keys are those of Kymas, and retirement."""
    known = MandatoryReader(
        kymas=manager.informer(KYMAS),
        templates=manager.informer(MODULE_TEMPLATES),
        releases=manager.informer(DATED_RELEASE_METAS),
        manifests=manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_KYMA, MANIFESTS_BY_MANDATORY_MODULE]),
        offers=offers,
        schedule=Schedule.watched_by(manager, offers, rollout),
    )
    return _setup_installation(manager, known, settings), _setup_retirement(manager, known, settings)


def _setup_installation(
    manager: Manager, known: MandatoryReader, settings: MandatorySettings
) -> Controller[ObjectKey, None]:
    controller: Controller[ObjectKey, None] = manager.controller(
        "mandatory-modules", concurrency=settings.installation_concurrency
    )

    controller.watches(known.kymas, when=kyma_changed(is_introduced))
    watch_offer(controller, manager)
    controller.watches(known.manifests, to=_kyma_of, when=_mandatory_manifest_changed, after=SETTLE_SECONDS)
    controller.receives(DescriptorFound, to=lambda _: known.kymas.cache.keys(), priority=Priority.RESYNC)
    controller.receives(
        ClusterReachable, to=lambda it: (ObjectKey(names.KCP_NAMESPACE, it.kyma),), priority=Priority.CHANGE
    )

    installation = Installation(manager, known, settings.interval_seconds)
    controller.reconciles(installation.reconcile, unforeseen=installation.report_unforeseen)
    return controller


def _setup_retirement(
    manager: Manager, known: MandatoryReader, settings: MandatorySettings
) -> Controller[ReleaseKey, None]:
    controller: Controller[ReleaseKey, None] = manager.controller(
        "mandatory-modules-deletion",
        owner=lambda key: f"{key.kind} {key.name}",
        exists=lambda key: known.get(key) is not None,
        concurrency=settings.retirement_concurrency,
    )
    controller.watches(known.templates, to=lambda change: map(key_of_release, versions(change)), when=offer_changed)
    controller.watches(known.releases, to=known.of_change, when=offer_changed)
    controller.watches(known.manifests, to=known.waiting_for, when=_mandatory_manifest_changed)
    controller.starts_with(known.keys)

    retirement = Retirement(manager, known)
    controller.reconciles(retirement.reconcile, unforeseen=retirement.report_unforeseen)
    return controller


@dataclass(frozen=True, eq=False)
class Installation:
    """Writes the Manifests of a Kyma, and its condition."""

    manager: Manager
    known: MandatoryReader
    interval_seconds: float

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Apply and delete Manifests, report modules that can't be installed, and write the condition.

        A Manifest that KCP refuses blocks no other. Raises KubeError.
        """
        kyma = self.known.kymas.get(key)
        if kyma is None:
            return Result()
        seen = self.known.installation(kyma)
        changes = rules.changes_of(seen)
        for each in changes.cannot:
            self.known.report(self.manager.events, each.release, CANNOT_BE_INSTALLED, each.why)
        kcp, manifests = self.manager.client, self.known.manifests
        applied = (apply_manifest(kcp, manifests, each) for each in changes.apply)
        deleted = (delete_manifest(kcp, name, key.namespace, seen.marks(name)) for name in changes.delete)
        await write_each(chain(applied, deleted))
        if (condition := status_of(kyma, seen.held)) is not None:
            await self._write(kyma, condition)
        return Result(self.interval_seconds)

    async def report_unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception as a condition of the Kyma. Raises KubeError."""
        if (kyma := self.known.kymas.get(key)) is not None:
            await self._write(kyma, failed(error))

    async def _write(self, kyma: Kyma, condition: ConditionContent) -> None:
        kcp, now = self.manager.client, self.manager.clock.now()
        written = await write_condition(kcp, kyma, MANDATORY_MODULES, condition, now=now, field_manager=FIELD_MANAGER)
        if written is not None:
            self.known.kymas.wrote(written)


@dataclass(frozen=True, eq=False)
class Retirement:
    """Keeps the finalizer on releases of mandatory modules."""

    manager: Manager
    known: MandatoryReader

    async def reconcile(self, key: ReleaseKey, _causes: Causes, _state: None) -> Result:
        """Add the finalizer to a release, or remove it once it waits for no Manifest. Raises KubeError."""
        release = self.known.get(key)
        if release is None:
            return Result()
        seen = self.known.retirement(release)
        if rules.has_wrong_finalizer(seen):
            kcp, informer, metadata = self.manager.client, self.known.informer_of(key.kind), release.metadata
            if rules.is_held(seen):
                finalizers = (*metadata.finalizers, names.MANDATORY_FINALIZER)
                informer.wrote(await set_finalizers(kcp, informer.resource, metadata, finalizers))
            else:
                await remove_finalizers(kcp, informer, metadata, names.MANDATORY_FINALIZER)
        return Result(WAITING_SECONDS if release.metadata.being_deleted else None)

    async def report_unforeseen(self, key: ReleaseKey, error: Exception) -> None:
        """Report an unforeseen exception as an Event: releases have no conditions."""
        if (release := self.known.get(key)) is not None:
            _, reason, message = failed(error)
            self.known.report(self.manager.events, release, reason, message)


def _mandatory_manifest_changed(change: Change[Manifest]) -> bool:
    """Tell whether the Manifest of a mandatory module was created, or has another spec or release, or is chosen now.

    That of any module counts once it is gone: perhaps the module became mandatory meanwhile.
    """
    old, new = change.old, change.new
    if new is None or (old is not None and is_mandatory_manifest(old) != is_mandatory_manifest(new)):
        return True
    is_released = old is not None and old.status.release != new.status.release
    return is_mandatory_manifest(new) and (is_released or generation_changed(change))


def _kyma_of(change: Change[Manifest]) -> Iterable[ObjectKey]:
    manifest = versions(change)[0]
    if kyma := kyma_of_manifest(manifest):
        yield ObjectKey(manifest.metadata.namespace, kyma)
