"""Writes the image pull Secret of an SKR."""

from kube_runtime import Client, JsonObject
from lifecycle_manager.contract.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.kyma.pull_secret.plan import SyncPullSecret
from lifecycle_manager_api import names


async def sync_pull_secret(skr: Client, step: SyncPullSecret) -> None:
    """Write the copy of a Secret. Raises KubeError."""
    name = step.secret.metadata.name
    if step.recreate:
        await skr.delete(SECRETS, name, names.SKR_NAMESPACE)
    await skr.apply(SECRETS, name, copy_for_skr(step.secret), names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)


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
