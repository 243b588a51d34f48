"""What the plans of mandatory modules are decided on. All of it comes from informers."""

from dataclasses import dataclass

from lifecycle_manager.module_catalog import Offer
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleTemplate

Release = ModuleTemplate | ModuleReleaseMeta


@dataclass(frozen=True, slots=True)
class InstallationSnapshot:
    """A Kyma, the offer, and the Manifests of the Kyma."""

    kyma: Kyma
    offer: Offer
    manifests: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True)
class RetirementSnapshot:
    """A ModuleTemplate or ModuleReleaseMeta, the offer, and all mandatory Manifests of its module."""

    release: Release
    offer: Offer
    manifests: tuple[Manifest, ...]
