"""The image pull Secret of an SKR: a copy of that of KCP, which the Pods of modules and of the Watcher name.

Another version in KCP reaches every SKR at once; what others do to a copy is corrected at the interval. The copy is the
Lifecycle Manager's own: whatever has its name in kyma-system is overwritten, and replaced where a field of it may not
be changed. An SKR that refuses it keeps its modules; its Kyma says why.
"""

import random
from dataclasses import dataclass

from kube_runtime import ApiError, Change, Client, Informer, Invalid, JsonObject, ObjectKey
from lifecycle_manager.kyma import reasons
from lifecycle_manager.kyma_conditions import PULL_SECRET_REFUSED, PULL_SECRET_SYNC
from lifecycle_manager.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager_api import Kyma, find, names
from lifecycle_manager_api.conditions import NewCondition

RETRY_SECONDS = 15.0


@dataclass(eq=False, slots=True)
class PullSecretState:
    """What is remembered of one SKR: the version that it got last, its condition, and when to write it again."""

    version: str = ""
    outcome: NewCondition | None = None
    due_at: float = float("-inf")


@dataclass(frozen=True, eq=False)
class PullSecretCopies:
    """Copies the Secret `name` of KCP. `secrets` are those of that name, None where there is nothing to copy."""

    name: str
    secrets: Informer[Secret] | None
    interval_seconds: float

    async def sync(self, kyma: Kyma, skr: Client, state: PullSecretState, *, now: float) -> NewCondition | None:
        """Copy the Secret if that is due, and return the condition of the Kyma. Raises ClusterUnreachable."""
        if self.secrets is None:
            return None
        secret = self.secrets.get(ObjectKey(names.KCP_NAMESPACE, self.name))
        if secret is None:
            message = f"there is no Secret {names.KCP_NAMESPACE}/{self.name} (--skr-image-pull-secret)"
            return (PULL_SECRET_SYNC, "False", reasons.PULL_SECRET_MISSING, message)
        version = f"{secret.metadata.uid}/{secret.metadata.resource_version}"
        if not state.version and (known := find(kyma.status.conditions, PULL_SECRET_SYNC)) and known.status == "True":
            # Copied by a process before this one: written again some time within the interval, not everywhere at once.
            state.version, state.outcome = version, (known.type, known.status, known.reason, known.message)
            state.due_at = now + self.interval_seconds * random.random()  # noqa: S311 - spreads load, guards nothing
        if state.version != version or now >= state.due_at:
            state.outcome = await self._copied(secret, skr)
            seconds = self.interval_seconds if state.outcome[1] == "True" else RETRY_SECONDS
            state.version, state.due_at = version, now + seconds
        return state.outcome

    def seconds_until_retry(self, state: PullSecretState, *, now: float) -> float | None:
        """Return when a refused Secret is to be written again; None where it was not refused."""
        return max(state.due_at - now, 0.0) if state.outcome is not None and state.outcome[1] != "True" else None

    async def _copied(self, secret: Secret, skr: Client) -> NewCondition:
        try:
            await self._write(secret, skr)
        except ApiError as error:
            message = f"Secret {names.SKR_NAMESPACE}/{self.name} can't be written: {error}"
            return (PULL_SECRET_SYNC, "False", PULL_SECRET_REFUSED, message)
        return (PULL_SECRET_SYNC, "True", reasons.READY, f"the cluster has the Secret {self.name}")

    async def _write(self, secret: Secret, skr: Client) -> None:
        place = (SECRETS, self.name)
        document = copy_for_skr(secret)
        try:
            await skr.apply(*place, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)
        except Invalid:  # of another type, or made immutable by somebody
            await skr.delete(*place, names.SKR_NAMESPACE)
            await skr.apply(*place, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)


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
