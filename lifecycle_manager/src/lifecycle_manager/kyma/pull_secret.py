"""The image pull Secret of an SKR: a copy of that of KCP, which the Pods of modules and of the Watcher name.

Another version in KCP reaches every SKR at once; what others do to a copy is corrected at the interval. The copy is the
Lifecycle Manager's own: whatever has its name in kyma-system is overwritten, and replaced where a field of it may not
be changed. An SKR that refuses it keeps its modules; its Kyma says why. The copy is deleted with the Kyma.

Limit: a refused Secret is written again after RETRY_SECONDS.
"""

from dataclasses import dataclass, replace

from kube_runtime import ApiError, Change, JsonObject
from lifecycle_manager.contract.conditions import PULL_SECRET_REFUSED, PULL_SECRET_SYNC
from lifecycle_manager.contract.offsets import offset_of
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.kyma import reasons
from lifecycle_manager_api import Kyma, find, names
from lifecycle_manager_api.conditions import NewCondition

RETRY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class PullSecretCopy:
    """What is remembered of the copy in one SKR: its version in KCP, its condition, and when to write it again."""

    version: str = ""
    condition: NewCondition | None = None
    due_at: float = float("-inf")


@dataclass(frozen=True, slots=True)
class PullSecret:
    """The Secret `name` of KCP, None where it is missing, and its copy in one SKR. `now` is the monotonic time."""

    name: str
    secret: Secret | None
    copy: PullSecretCopy
    interval_seconds: float
    now: float

    @property
    def version(self) -> str:
        """The version in KCP; empty where the Secret is missing."""
        return f"{self.secret.metadata.uid}/{self.secret.metadata.resource_version}" if self.secret is not None else ""

    @property
    def is_due(self) -> bool:
        return self.secret is not None and (self.copy.version != self.version or self.now >= self.copy.due_at)

    @property
    def condition(self) -> NewCondition | None:
        if self.secret is None:
            message = f"there is no Secret {names.KCP_NAMESPACE}/{self.name} (--skr-image-pull-secret)"
            return (PULL_SECRET_SYNC, "False", reasons.PULL_SECRET_MISSING, message)
        return self.copy.condition

    @property
    def retry_after(self) -> float | None:
        """The seconds until a refused Secret is written again; None where it was not refused."""
        known = self.copy.condition
        return max(self.copy.due_at - self.now, 0.0) if known is not None and known[1] != "True" else None

    def inherited(self, kyma: Kyma) -> "PullSecret":
        """Return it with the copy that an earlier process has written, if the Kyma says so.

        That is written again some time within the interval, which differs from Kyma to Kyma: not everywhere at once.
        """
        known = find(kyma.status.conditions, PULL_SECRET_SYNC)
        if self.copy.version or self.secret is None or known is None or known.status != "True":
            return self
        condition = (known.type, known.status, known.reason, known.message)
        return self._with_copy(condition, self.interval_seconds * offset_of(kyma.metadata.name))

    def written(self) -> "PullSecret":
        condition: NewCondition = (PULL_SECRET_SYNC, "True", reasons.READY, f"the cluster has the Secret {self.name}")
        return self._with_copy(condition, self.interval_seconds)

    def refused(self, error: ApiError) -> "PullSecret":
        message = f"Secret {names.SKR_NAMESPACE}/{self.name} can't be written: {error}"
        return self._with_copy((PULL_SECRET_SYNC, "False", PULL_SECRET_REFUSED, message), RETRY_SECONDS)

    def _with_copy(self, condition: NewCondition, seconds: float) -> "PullSecret":
        return replace(self, copy=PullSecretCopy(self.version, condition, self.now + seconds))


def copy_for_skr(secret: Secret) -> JsonObject:
    """Return what of a Secret goes to SKRs: its labels and annotations belong to whatever manages it in KCP."""
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": secret.metadata.name,
            "namespace": names.SKR_NAMESPACE,
            "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.WATCHED_BY: "kyma"},
        },
        "type": secret.type,
        "data": dict(secret.data),
    }


def data_changed(change: Change[Secret]) -> bool:
    """Tell whether SKRs get another Secret, or none any more, by a change of that in KCP."""
    old, new = change.old, change.new
    return old is None or new is None or (old.type, old.data) != (new.type, new.data)
