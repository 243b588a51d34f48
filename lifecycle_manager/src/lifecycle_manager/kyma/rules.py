"""The decisions of a Kyma that is not being deleted, and when it is reconciled again.

Limits: MAX_REPEATS, REVERTED_SECONDS; the intervals are in `settings`.

May delete: Manifests of modules that users do not request any more or that this Kyma may not have, never those of
mandatory modules; with them the SyncResources of the module that no ModuleConfig takes along. In the SKR the image pull
Secret, to create it again where a field of it may not be changed, and the finalizer of Lifecycle Manager on a Kyma CR
that a user deletes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kube_runtime import ApiError
from lifecycle_manager.kyma.snapshot import KymaSnapshot
from lifecycle_manager.kyma.wanted import DeleteSyncResource, ModuleChange, wanted_of
from lifecycle_manager.skr.access import ClusterClaimed
from lifecycle_manager_api import Kyma, KymaStatus, names

# The labels of the Kyma in KCP that the users of the SKR may see.
VISIBLE_LABELS = frozenset(
    {
        names.RUNTIME_ID,
        names.INSTANCE_ID,
        names.GLOBAL_ACCOUNT_ID,
        names.SUBACCOUNT_ID,
        names.REGION,
        names.PLATFORM_REGION,
        names.BROKER_PLAN_NAME,
        names.INTERNAL,
        names.BETA,
    }
)
MAX_REPEATS = 3
"""How often in a row the outcome is read at once. An SKR that reverts it each time has to wait after that."""
REVERTED_SECONDS = 5.0


class Correction(NamedTuple):
    """Labels and annotations of the Kyma CR in the SKR that are not as KCP has them; None removes a label."""

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str]


def own_kyma(seen: KymaSnapshot) -> Kyma | None:
    """Return the Kyma CR in the SKR, if there is one. Raises ClusterClaimed where the SKR belongs to another Kyma."""
    if seen.skr is not None and seen.skr.claimed_by:
        raise ClusterClaimed(seen.kyma.metadata.name, seen.skr.claimed_by)
    return seen.skr.kyma if seen.skr is not None else None


def is_held(inner: Kyma) -> bool:
    """Tell whether the Kyma CR in the SKR waits for the Lifecycle Manager to be deleted, and to be created again."""
    return inner.metadata.being_deleted and names.KYMA_FINALIZER in inner.metadata.finalizers


def is_replaced(seen: KymaSnapshot) -> bool:
    """Tell whether an SKR without a Kyma CR had one: nothing that is recorded of it counts, unless the Kyma is new."""
    return seen.is_known and seen.repeats < MAX_REPEATS


def visible_metadata(kyma: Kyma) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that the Kyma CR in the SKR carries."""
    labels = {key: value for key, value in kyma.metadata.labels.items() if key in VISIBLE_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    return labels, {names.OWNED_BY: f"{kyma.metadata.namespace}/{kyma.metadata.name}"}


def correction(kyma: Kyma, inner: Kyma) -> Correction | None:
    """Return how labels and annotations are corrected; None where they are right, or a user deletes the Kyma CR."""
    labels, annotations = visible_metadata(kyma)
    gone = dict.fromkeys(sorted(VISIBLE_LABELS & inner.metadata.labels.keys() - labels.keys()))
    is_right = _holds(inner.metadata.labels, labels) and _holds(inner.metadata.annotations, annotations)
    if inner.metadata.being_deleted or (is_right and not gone):
        return None
    return Correction({**labels, **gone}, annotations)


def _holds(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(actual.get(key) == value for key, value in wanted.items())


def changes_after(seen: KymaSnapshot, error: Exception) -> tuple[ModuleChange, ...]:
    """Return the changes of modules although the SKR could not be written.

    A CRD or a status that it refuses is no reason to keep users waiting for a module.
    """
    inner = seen.skr.kyma if seen.skr is not None else None
    return wanted_of(seen, inner.spec).changes if isinstance(error, ApiError) and inner is not None else ()


def still_listed(seen: KymaSnapshot, status: KymaStatus, refused: Sequence[ModuleChange]) -> KymaStatus:
    """Return the status where KCP refused changes: it lists removed modules until what they left may be deleted."""
    listed = {each.name for each in status.modules}
    left = {each.resource.spec.module for each in refused if isinstance(each, DeleteSyncResource)} - listed
    kept = (each for each in seen.kyma.status.modules if each.name in left)
    return msgspec.structs.replace(status, modules=(*status.modules, *kept))


def pause(
    seen: KymaSnapshot,
    error: Exception | None = None,
    again: datetime | None = None,
    *,
    repeats: int = 0,
) -> float | None:
    """Return in how many seconds the Kyma is reconciled without a trigger. `again` is when time alone changes it.

    With `repeats` the outcome of the writes is read at once, and it was so often in a row.

    Missing access to the SKR is no error, since a new access Secret triggers the Kyma; nothing triggers it once another
    Kyma, to which the SKR belongs, is gone.
    """
    left = max((again - seen.timing.now).total_seconds(), 0.0) if again is not None else None
    if isinstance(error, ClusterClaimed):
        return seen.settings.interval_seconds
    if error is not None:
        return left
    if repeats:
        return 0.0 if repeats <= MAX_REPEATS else REVERTED_SECONDS
    unseen = seen.skr.read_again_after if seen.skr is not None else None
    times = (left, unseen, seen.pull_secret.retry_after if seen.pull_secret is not None else None)
    return min((seen.interval_seconds, *(each for each in times if each is not None)))
