"""The image pull Secret of an SKR: a copy of that of KCP, which the Pods of modules and of the Watcher name.

Another version in KCP reaches every SKR at once; what others do to a copy is corrected at the interval, and by the
first reconcile of a new process. The copy is the
Lifecycle Manager's own: whatever has its name in kyma-system is overwritten, and replaced where a field of it may not
be changed. An SKR that refuses it keeps its modules; its Kyma says why. The copy is deleted with the Kyma.

Limit: a refused Secret is written again after RETRY_SECONDS.
"""

from dataclasses import dataclass, replace

from kube_runtime import ApiError, Change, JsonObject
from lifecycle_manager.contract.conditions import PULL_SECRET_REFUSED, PULL_SECRET_SYNC
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.kyma import reasons
from lifecycle_manager_api import names
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

    def written(self) -> "PullSecret":
        condition: NewCondition = (PULL_SECRET_SYNC, "True", reasons.READY, f"the cluster has the Secret {self.name}")
        return replace(self, copy=PullSecretCopy(self.version, condition, self.now + self.interval_seconds))

    def refused(self, error: ApiError) -> "PullSecret":
        message = f"Secret {names.SKR_NAMESPACE}/{self.name} can't be written: {error}"
        condition: NewCondition = (PULL_SECRET_SYNC, "False", PULL_SECRET_REFUSED, message)
        return replace(self, copy=PullSecretCopy(self.version, condition, self.now + RETRY_SECONDS))


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
