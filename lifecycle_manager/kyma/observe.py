"""Gathers what the rules of a Kyma decide on: one snapshot from the caches and one read from its cluster."""

from dataclasses import dataclass, field
from datetime import timedelta

from kube_runtime import Client, NotFound
from lifecycle_manager.kyma.resolution import Timing
from lifecycle_manager.modules import Offer
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, names


@dataclass(frozen=True, slots=True)
class SkrView:
    """What the user cluster holds: its Kyma CR, None where there is none (or no CRD for it)."""

    kyma: Kyma | None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before a state tells of it.

    - `unreachable`: until a cluster that gives no answer makes its Kyma an Error
    - `deletion`: until a deletion that gets nowhere is a Warning
    - `purge`: until finalizers that hold a deletion back are taken off; None for never
    """

    unreachable: timedelta = timedelta(0)
    deletion: timedelta = timedelta(minutes=10)
    purge: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that `plan` looks at.

    `skr` is a failure where the cluster could not be read or written; `crd_hash` is that of the control plane's CRD,
    empty where it can't be seen.
    """

    timing: Timing
    kyma: Kyma
    offer: Offer
    skr: SkrView | SkrFailure
    crd_hash: str
    manifests: tuple[Manifest, ...] = ()
    module_configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()
    patience: Patience = field(default_factory=Patience)


async def observe_skr(skr: Client) -> SkrView:
    """Read the Kyma CR of a user cluster. Raises KubeError where that fails."""
    try:
        kyma = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
    except NotFound:
        return SkrView(None)
    return SkrView(kyma)
