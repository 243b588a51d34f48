"""The rules for the image pull Secret of an SKR: when its copy is written, and what the Kyma says of it.

Limit: a refused Secret is written again after RETRY_SECONDS.

May delete: the Secret of that name in an SKR, where a field of it may not be changed, to create it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kube_runtime import ApiError, Change, Invalid, Step, StepFailure
from lifecycle_manager.contract.conditions import PULL_SECRET_REFUSED, PULL_SECRET_SYNC
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.contract.turns import share_of
from lifecycle_manager.kyma import reasons
from lifecycle_manager_api import Kyma, find, names
from lifecycle_manager_api.conditions import NewCondition

RETRY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class SyncPullSecret(Step):
    """Write the copy of a Secret in the SKR; with `recreate` delete what has its name before."""

    secret: Secret
    recreate: bool = False


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
        return self._with_copy(condition, self.interval_seconds * share_of(kyma.metadata.name))

    def written(self) -> "PullSecret":
        condition: NewCondition = (PULL_SECRET_SYNC, "True", reasons.READY, f"the cluster has the Secret {self.name}")
        return self._with_copy(condition, self.interval_seconds)

    def after(self, failures: Iterable[StepFailure]) -> "PullSecret":
        """Return it with its refusal by the SKR, if the last attempt to write it was refused."""
        last = next(reversed(_failures(failures)), None)
        if not self.is_due or not isinstance(last, ApiError):
            return self
        message = f"Secret {names.SKR_NAMESPACE}/{self.name} can't be written: {last}"
        return self._with_copy((PULL_SECRET_SYNC, "False", PULL_SECRET_REFUSED, message), RETRY_SECONDS)

    def _with_copy(self, condition: NewCondition, seconds: float) -> "PullSecret":
        return replace(self, copy=PullSecretCopy(self.version, condition, self.now + seconds))


def plan_pull_secret(known: PullSecret | None, failures: Iterable[StepFailure]) -> SyncPullSecret | None:
    """Return how the copy is to be written, None where it is as it should be or was refused for now."""
    if known is None or known.secret is None or not known.is_due:
        return None
    match _failures(failures):
        case []:
            return SyncPullSecret(known.secret)
        case [Invalid()]:  # of another type, or made immutable by somebody
            return SyncPullSecret(known.secret, recreate=True)
        case _:
            return None


def _failures(failures: Iterable[StepFailure]) -> list[Exception]:
    return [each.error for each in failures if isinstance(each.step, SyncPullSecret)]


def data_changed(change: Change[Secret]) -> bool:
    """Tell whether SKRs get another Secret, or none any more, by a change of that in KCP."""
    old, new = change.old, change.new
    return old is None or new is None or (old.type, old.data) != (new.type, new.data)
