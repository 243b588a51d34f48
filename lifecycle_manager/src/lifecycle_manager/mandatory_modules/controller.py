"""The two controllers of mandatory modules: their triggers. Neither keeps state for a key.

The Manifests of a Kyma are reconciled when

- the metadata of the Kyma changes, its SKR was read for the first time, or answers again
- a ModuleTemplate or ModuleReleaseMeta of a mandatory module changes, or its descriptor is found: those of all Kymas
- a Manifest of a mandatory module is created or changed in its spec, any is gone, and at intervals

The finalizer of a ModuleTemplate or ModuleReleaseMeta is reconciled when

- it changes, or the ModuleReleaseMeta of its module does
- a Manifest of its module is created, deleted or changed, while it is being deleted

Limits: `MandatorySettings`.
"""

from collections.abc import Iterable

from kube_runtime import Change, Controller, Manager, ObjectKey, Priority
from lifecycle_manager.contract.changes import generation_changed, kyma_changed, versions
from lifecycle_manager.contract.conditions import is_introduced
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MANIFESTS, MODULE_TEMPLATES
from lifecycle_manager.contract.signals import ClusterReachable, DescriptorFound
from lifecycle_manager.mandatory_modules.apply import Installation, Retirement
from lifecycle_manager.mandatory_modules.plan import plan_installation, plan_retirement
from lifecycle_manager.mandatory_modules.snapshot import (
    MANIFESTS_BY_MANDATORY_MODULE,
    MandatoryReader,
    ReleaseKey,
    key_of_release,
)
from lifecycle_manager.module_catalog import Offers, is_mandatory_manifest, kyma_of_manifest
from lifecycle_manager.module_catalog.affected import affected_by_template, offer_changed, watch_offer
from lifecycle_manager.options.kymas import MandatorySettings, RolloutSettings
from lifecycle_manager.rollout import Schedule
from lifecycle_manager_api import Manifest, names

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
        interval_seconds=settings.interval_seconds,
    )
    return _setup_installation(manager, known, settings), _setup_retirement(manager, known, settings)


def _setup_installation(
    manager: Manager, known: MandatoryReader, settings: MandatorySettings
) -> Controller[ObjectKey, None]:
    controller: Controller[ObjectKey, None] = manager.controller(
        "mandatory-modules", concurrency=settings.installation_concurrency
    )

    def all_kymas_of_descriptor(found: DescriptorFound) -> Iterable[ObjectKey]:
        template = known.templates.get(ObjectKey(found.namespace, found.template))
        if template is None:
            return ()
        affected = affected_by_template(Change(None, template), templates=known.templates, releases=known.releases)
        return known.kymas.cache.keys() if affected.mandatory else ()

    controller.watches(known.kymas, when=kyma_changed(is_introduced))
    watch_offer(controller, manager, affects=lambda affected: affected.mandatory)
    controller.watches(known.manifests, to=_kyma_of, when=_mandatory_manifest_changed, after=SETTLE_SECONDS)
    controller.receives(DescriptorFound, to=all_kymas_of_descriptor, priority=Priority.RESYNC)
    controller.receives(
        ClusterReachable, to=lambda it: (ObjectKey(names.KCP_NAMESPACE, it.kyma),), priority=Priority.CHANGE
    )

    installation = Installation(manager.client, known, manager.events, manager.clock)
    controller.steps(
        read=known.installation,
        plan=plan_installation,
        apply=installation.apply,
        finish=installation.finish,
        unforeseen=installation.unforeseen,
    )
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

    retirement = Retirement(manager.client, known, manager.events)
    controller.steps(
        read=known.retirement,
        plan=plan_retirement,
        apply=retirement.apply,
        finish=retirement.finish,
        unforeseen=retirement.unforeseen,
    )
    return controller


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
