"""The steps of a Kyma's reconcile: what each does, and where. `plan` decides on them, `apply` carries them out.

Those in the SKR derive from SkrStep; that of the image pull Secret is in `pull_secret`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kube_runtime import End, Step
from lifecycle_manager.kyma.pull_secret.plan import PullSecretCopy, SyncPullSecret
from lifecycle_manager_api import KymaSpec, KymaStatus, Manifest, SyncResource, names


@dataclass(frozen=True, slots=True)
class ApplyManifest:
    """Install a module by this Manifest. `managed_again` where the module was unmanaged."""

    manifest: Manifest
    managed_again: bool = False


@dataclass(frozen=True, slots=True)
class UpdateTerminatingManifest:
    """Give a Manifest that is being deleted another version; once it is gone, it stays gone."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class MarkUnmanaged:
    """Annotate the Manifest of a module that stays installed as it is."""

    manifest: str


@dataclass(frozen=True, slots=True)
class DeleteManifest:
    """Remove a module: delete its Manifest in the foreground, so that its objects are deleted first.

    `by_users`: they do not request the module any more. `removed_since`: when the catalog was changed whose effect an
    operator continued.
    """

    manifest: str
    by_users: bool = False
    removed_since: datetime | None = None

    @property
    def marks(self) -> dict[str, str | None]:
        """The annotations by which the brake knows why the Manifest is deleted."""
        if self.by_users:
            return {names.REMOVED_BY_USERS: "true"}
        return {} if self.removed_since is None else {names.REMOVED_SINCE: self.removed_since.isoformat()}


@dataclass(frozen=True, slots=True)
class DeleteSyncResource:
    """Remove the objects that a Module Manager wanted in the SKR."""

    resource: SyncResource


ModuleChange = ApplyManifest | UpdateTerminatingManifest | MarkUnmanaged | DeleteManifest | DeleteSyncResource


class Decision(NamedTuple):
    """What follows for a Kyma whose SKR was read, computed once in a reconcile.

    - `in_kcp`, `in_skr`: the status, and as the users of the SKR may read it; None where they read it already
    - `again`: when it may change
    - `changes`: those of modules
    - `shown_at`: until when the status is not written, see `status.progress_shown_at`
    """

    in_kcp: KymaStatus
    in_skr: KymaStatus | None
    again: datetime | None
    changes: tuple[ModuleChange, ...] = ()
    shown_at: datetime | None = None


class KymaOutcome(NamedTuple):
    """How a reconcile ends, as the rules have it.

    - `status`: None where it stays; `again`: when time alone changes the plan
    - `at_once`: the outcome of the steps has to be read at once
    - `progress_since`: when the change of modules began that the status does not show yet
    """

    status: KymaStatus | None = None
    again: datetime | None = None
    at_once: bool = False
    progress_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class SkrStep(Step):
    """A step in the SKR, after whose failure nothing more is done there."""


@dataclass(frozen=True, slots=True)
class AddFinalizer(Step):
    """Keep the Kyma until its SKR is cleaned up."""


@dataclass(frozen=True, slots=True)
class ReadSkr(SkrStep):
    """Read the Kyma CR in the SKR. Where its metadata suffices, the rest may be unreadable."""

    metadata_suffices: bool = False


@dataclass(frozen=True, slots=True)
class InstallCrd(SkrStep):
    """Apply namespace and CRD in the SKR, and wait until the API server there serves it."""


@dataclass(frozen=True, slots=True)
class CreateKyma(SkrStep):
    """Create the Kyma CR in the SKR; an existing one stays as it is. With `is_replaced` other domains are notified."""

    spec: KymaSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_replaced: bool = False


@dataclass(frozen=True, slots=True)
class SyncMetadata(SkrStep):
    """Set the labels and annotations of the Kyma CR in the SKR that KCP owns; None removes a label."""

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteSkrStatus(SkrStep):
    """Write the status of the Kyma CR in the SKR, and record there as Kubernetes Events what changed."""

    status: KymaStatus
    decision: Decision | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RemoveSkrFinalizer(SkrStep):
    """Remove the finalizer of Lifecycle Manager from a Kyma CR that a user deletes; it is created again."""


@dataclass(frozen=True, slots=True)
class PurgeFinalizers(SkrStep):
    """Remove the finalizers of objects of these that are being deleted in the SKR."""

    owners: tuple[Manifest | SyncResource, ...]


@dataclass(frozen=True, slots=True)
class DeleteKyma(SkrStep):
    """Delete the Kyma CR in the SKR and remove the finalizer of Lifecycle Manager; with `purge` all finalizers."""

    purge: bool = False


@dataclass(frozen=True, slots=True)
class DeletePullSecret(SkrStep):
    """Delete the image pull Secret in the SKR."""

    name: str


@dataclass(frozen=True, slots=True)
class RemoveCrd(SkrStep):
    """Remove the Kyma CRD from the SKR, unless users have Kymas of their own there."""


@dataclass(frozen=True, slots=True)
class ChangeModules(Step):
    """Change modules in KCP. Each change is made whether KCP refuses others or not; each refusal is a failure."""

    changes: tuple[ModuleChange, ...]
    decision: Decision | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RemoveKymaFinalizer(Step):
    """Remove the finalizer, so that the Kyma is gone; with `of_others` all finalizers."""

    of_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KymaDone(End):
    """The end of a reconcile.

    - `status`: the status to be written in KCP, with Events of what changed; None where it stays
    - `reasons`: for the metric of requeues
    - `repeats`, `pull_secret`, `progress_since`: what is remembered of the Kyma
    """

    status: KymaStatus | None = None
    reasons: tuple[str, ...] = ()
    repeats: int = 0
    pull_secret: PullSecretCopy = field(default_factory=PullSecretCopy)
    progress_since: datetime | None = None


SkrSteps = (
    ReadSkr
    | InstallCrd
    | CreateKyma
    | SyncPullSecret
    | SyncMetadata
    | WriteSkrStatus
    | RemoveSkrFinalizer
    | PurgeFinalizers
    | DeleteKyma
    | DeletePullSecret
    | RemoveCrd
)
KymaStep = AddFinalizer | ChangeModules | RemoveKymaFinalizer | SkrSteps
