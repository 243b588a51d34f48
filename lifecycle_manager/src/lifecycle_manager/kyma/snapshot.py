"""What the rules of a Kyma decide on: one snapshot of the caches and one read of its SKR."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from kube_runtime import Client, NotFound, ObjectUnreadable
from lifecycle_manager.contract.options import Duration, PurgeSettings, option
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.module_namespaces import Assignment
from lifecycle_manager.resources import KYMAS, RAW_KYMAS
from lifecycle_manager.rollout import Timing
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Kyma, KymaSpec, Manifest, ModuleConfig, ObjectMeta, SyncResource, names
from lifecycle_manager_api.conditions import NewCondition


@dataclass(frozen=True, slots=True)
class SkrView:
    """The Kyma CR in the SKR; None where there is none (or no CRD for it).

    Where it is not `is_readable` it has only its metadata, which is enough to delete it.
    """

    kyma: Kyma | None
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a state may last before it is reported or acted on.

    - `unreachable`: an SKR that does not answer makes its Kyma an Error
    - `deletion`: a deletion that makes no progress is a Warning
    - `purge`: finalizers that block a deletion are removed; None for never

    With `others_finalizers` a Kyma whose access Secret is gone loses the finalizers of others as well.
    """

    unreachable: Duration = option(
        timedelta(seconds=30),
        "skr-unreachable-grace",
        "time without an answer of the SKR after which the state of its Kyma is Error",
    )
    deletion: Duration = option(
        timedelta(minutes=10),
        "deletion-warning-after",
        "time after which the state of a Kyma is Warning whose deletion is blocked",
    )
    purging: PurgeSettings = field(default_factory=PurgeSettings)
    others_finalizers: bool = option(
        False,
        "remove-finalizers-of-others",
        "remove all finalizers, not just its own, from a Kyma that is being deleted and whose access Secret is gone, "
        "as upstream does with ENABLE_LEGACY_KYMA_DELETION; from Manifests they are always removed",
    )

    @property
    def purge(self) -> timedelta | None:
        """How long after a deletion finalizers that block it are removed."""
        return self.purging.after


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that `plan` decides on.

    `module_configs` and `sync_resources` are those in namespaces that their modules have or had by the `assignment`.
    `skr` is a failure where the SKR could not be read or written; `crd_hash` is that of KCP's CRD, empty where that
    can't be read; `installed_crd` is that of the CRD that this reconcile has installed. `pull_secret` is what came of
    the image pull Secret, None where there is none to copy.
    """

    timing: Timing
    kyma: Kyma
    offer: Offer
    skr: SkrView | SkrFailure
    crd_hash: str
    installed_crd: str | None = None
    manifests: tuple[Manifest, ...] = ()
    module_configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()
    assignment: Assignment = field(default_factory=Assignment)
    patience: Patience = field(default_factory=Patience)
    pull_secret: NewCondition | None = None

    @property
    def needs_crd(self) -> bool:
        """Whether the CRD in the SKR has to be replaced by the one of KCP."""
        return self.crd_hash not in ("", self.crd_in_skr)

    @property
    def crd_in_skr(self) -> str:
        """The hash of the CRD that the SKR has, as far as it is known; empty where it is not."""
        return self.kyma.status.records.kyma_crd if self.installed_crd is None else self.installed_crd

    def deletion_plus(self, patience: timedelta | None) -> datetime | None:
        """Return when the Kyma has been deleted for so long; None for never."""
        since = self.kyma.metadata.deletion_timestamp
        return since + patience if since is not None and patience is not None else None


async def read_skr(skr: Client, *, deleting: bool = False) -> SkrView:
    """Read the Kyma CR of an SKR. Raises KubeError.

    Where the Kyma is being deleted, a Kyma CR that users made unreadable, after changing its CRD, does not matter.
    """
    try:
        kyma = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
        return SkrView(kyma)
    except NotFound:
        return SkrView(None)
    except ObjectUnreadable:
        if not deleting:
            raise
    try:
        document = await skr.get(RAW_KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
    except NotFound:
        return SkrView(None)
    metadata = msgspec.convert(document["metadata"], ObjectMeta)
    return SkrView(Kyma(metadata=metadata, spec=KymaSpec(channel="")), is_readable=False)
