"""Gathers what the rules of a Kyma decide on: one snapshot from the caches and one read from its cluster."""

from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from kube_runtime import Client, NotFound, ObjectUnreadable
from lifecycle_manager.kyma.resolution import Timing
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.resources import KYMAS, RAW_KYMAS
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Kyma, KymaSpec, Manifest, ModuleConfig, ObjectMeta, SyncResource, names


@dataclass(frozen=True, slots=True)
class SkrView:
    """What the user cluster holds: its Kyma CR, None where there is none (or no CRD for it).

    Of one that is not `is_readable` there are the metadata alone, which is enough to leave the cluster.
    """

    kyma: Kyma | None
    is_readable: bool = True


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


async def observe_skr(skr: Client, *, leaving: bool = False) -> SkrView:
    """Read the Kyma CR of a user cluster. Raises KubeError where that fails.

    Who is `leaving` is not kept by what users have written into it where its definition no longer hinders them.
    """
    try:
        kyma = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
        return SkrView(kyma)
    except NotFound:
        return SkrView(None)
    except ObjectUnreadable:
        if not leaving:
            raise
    try:
        document = await skr.get(RAW_KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
    except NotFound:
        return SkrView(None)
    metadata = msgspec.convert(document["metadata"], ObjectMeta)
    return SkrView(Kyma(metadata=metadata, spec=KymaSpec(channel="")), is_readable=False)
