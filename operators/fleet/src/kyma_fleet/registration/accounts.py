"""The ServiceAccount of Lifecycle Manager in a cluster, and the access Secrets in the control plane with its token."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kube_runtime import Client, Forbidden, KubeError, NotFound
from kyma_fleet.identities import SERVICE_ACCOUNTS
from kyma_fleet.problems import Problem, line_for
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.skr.access import OUR_SECRETS, AccessSecretIncomplete, kubeconfig_in
from lifecycle_manager.skr.token import TokenUnusable, token_in
from lifecycle_manager_api import names

ACCOUNT, ACCOUNT_NAMESPACE = names.LIFECYCLE_MANAGER, "kube-system"
"""The ServiceAccount of Lifecycle Manager in a cluster; the Role in rbac/skr-token.yaml is for it alone."""


async def access_of(kcp: Client, kyma: str) -> tuple[Secret, ...]:
    """Return the access Secrets of a Kyma, the one in use first. Raises KubeError."""
    selector = f"{OUR_SECRETS},{names.KYMA_NAME}={kyma},!{names.PURPOSE}"
    found = (await kcp.list(SECRETS, names.KCP_NAMESPACE, label_selector=selector)).items
    return tuple(sorted(found, key=lambda each: (str(each.metadata.creation_timestamp), each.metadata.name)))


async def account_in(cluster: Client) -> str:
    """Return the uid of our ServiceAccount in a cluster; empty where there is none. Raises KubeError."""
    try:
        found = await cluster.get(SERVICE_ACCOUNTS, ACCOUNT, ACCOUNT_NAMESPACE)
    except NotFound:
        return ""
    return str(found["metadata"]["uid"])


def account_of(secret: Secret) -> str:
    """Return the uid of our ServiceAccount whose token is in an access Secret; empty where it has another one."""
    try:
        token = token_in(kubeconfig_in(secret))
    except (AccessSecretIncomplete, TokenUnusable):
        return ""
    return token.uid if (token.namespace, token.account) == (ACCOUNT_NAMESPACE, ACCOUNT) else ""


async def other_kyma(kcp: Client, uid: str, name: str) -> str:
    """Return another Kyma with an access Secret for the ServiceAccount with this uid; empty for none."""
    if not uid:
        return ""
    async for page in kcp.pages(SECRETS, names.KCP_NAMESPACE, label_selector=OUR_SECRETS):
        for each in page.items:
            owner = each.metadata.labels.get(names.KYMA_NAME, "")
            if owner != name and account_of(each) == uid:
                return owner
    return ""


@contextmanager
def of_cluster(kubeconfig: Path | None) -> Iterator[None]:
    """Raise Problem for an error of the cluster that joins or leaves: else it is read as one of the control plane."""
    try:
        yield
    except Forbidden as error:
        raise Problem(f"the cluster of {kubeconfig}: {error}; --kubeconfig has to be of its administrator") from None
    except KubeError as error:
        raise Problem(f"the cluster of {kubeconfig}: {line_for(error)}") from None
