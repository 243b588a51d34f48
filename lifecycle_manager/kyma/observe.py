"""Gathers what the rules of a Kyma decide on: one snapshot from the caches and one read from its cluster."""

from dataclasses import dataclass
from datetime import datetime

from kube_runtime import Client, NotFound
from lifecycle_manager.kyma.resolution import Catalog
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Kyma, ModuleConfig, SyncResource, names


@dataclass(frozen=True, slots=True)
class SkrView:
    """What the user cluster holds: its Kyma CR, None where there is none (or no CRD for it)."""

    kyma: Kyma | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that `plan` looks at. `skr` is a failure where the cluster could not be read or written."""

    now: datetime
    kyma: Kyma
    catalog: Catalog
    skr: SkrView | SkrFailure
    crd_hash: str
    module_configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()


async def observe_skr(skr: Client) -> SkrView:
    """Read the Kyma CR of a user cluster. Raises KubeError where that fails."""
    try:
        kyma = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
    except NotFound:
        return SkrView(None)
    return SkrView(kyma)
