"""The kubeconfig of an SKR: one Secret for each Kyma, in KCP.

SkrAccessError
├── AccessSecretMissing      no Secret has the label with the Kyma's name
├── AccessSecretIncomplete   the Secret has no kubeconfig under the key `config`
├── AccessSecretUnusable     the kubeconfig is malformed, or of a kind that is refused
├── ClusterClaimed           the kubeconfig leads to an SKR that belongs to another Kyma
└── SkrUnreachable           the SKR did not answer, and gets no requests until it answers a probe
"""

import base64
from collections.abc import Iterable, Sequence

from cryptography import x509

from kube_runtime import ClusterUnreachable, Index, KubeconfigInvalid
from kube_runtime.client.kubeconfig import server_of_kubeconfig
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager_api import names

KUBECONFIG_KEY = "config"
API_SERVER_CA_KEY = "api-server-ca"
"""The key of the CA whose certificates the API server of the SKR presents to webhooks, where it presents any."""

OUR_SECRETS = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
"""The label selector of access Secrets, of the Secret of the CAs, and of those with the Watchers' certificates."""


class SkrAccessError(Exception):
    """An SKR can't be accessed: no usable credentials in KCP, or no answer."""

    reason: str


class AccessSecretMissing(SkrAccessError):
    """The Kyma has no access Secret (yet, or any more)."""

    reason = "AccessSecretMissing"

    def __init__(self, kyma_name: str) -> None:
        super().__init__(
            f"no Secret in {names.KCP_NAMESPACE} has the labels {names.KYMA_NAME}={kyma_name} and "
            f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}; create it with the cluster's kubeconfig under "
            f"the key {KUBECONFIG_KEY!r}"
        )


class AccessSecretIncomplete(SkrAccessError):
    """The access Secret holds no kubeconfig."""

    reason = "AccessSecretIncomplete"

    def __init__(self, secret: Secret) -> None:
        super().__init__(
            f"Secret {secret.metadata.namespace}/{secret.metadata.name} has no readable kubeconfig under "
            f"the key {KUBECONFIG_KEY!r}; put the cluster's kubeconfig there"
        )


class AccessSecretUnusable(SkrAccessError):
    """What the access Secret holds can't be read, or is of a kind that is refused."""

    reason = "AccessSecretUnusable"

    def __init__(self, secret: Secret, why: str) -> None:
        super().__init__(f"Secret {secret.metadata.namespace}/{secret.metadata.name}: {why}")


class ClusterClaimed(SkrAccessError):
    """The access Secret leads to an SKR that belongs to another Kyma; both would undo each other's work for ever."""

    reason = "SKRClaimed"

    def __init__(self, kyma_name: str, claimant: str) -> None:
        super().__init__(
            f"the access Secret leads to the cluster of Kyma {claimant}; correct the Secret, or delete Kyma "
            f"{kyma_name} or {claimant}"
        )


class SkrUnreachable(SkrAccessError):
    """The SKR did not answer lately. It gets no requests until it answers a probe."""

    reason = "ClusterUnreachable"

    def __init__(self, error: ClusterUnreachable) -> None:
        super().__init__(self.message_of(error))

    @staticmethod
    def message_of(error: ClusterUnreachable) -> str:
        """Return one message for the request that failed and for all that were not sent because of it."""
        return f"the cluster can't be reached: {error}"


def access_index(secret: Secret) -> Iterable[str]:
    """Index an access Secret by its Kyma; other Secrets of LM have the label of their purpose."""
    labels = secret.metadata.labels
    if names.PURPOSE not in labels and (kyma_name := labels.get(names.KYMA_NAME)):
        yield kyma_name


ACCESS_SECRETS = Index("access", access_index)


def choose_access_secret(kyma_name: str, candidates: Sequence[Secret]) -> Secret:
    """Return the Secret to use: the oldest, so that a stray second one does not take the Kyma over.

    Raises AccessSecretMissing where there is none.
    """
    if not candidates:
        raise AccessSecretMissing(kyma_name)
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda secret: (str(secret.metadata.creation_timestamp), secret.metadata.name))


def kubeconfig_in(secret: Secret) -> str:
    """Return the kubeconfig's text. Raises AccessSecretIncomplete where there is none."""
    try:
        return base64.b64decode(secret.data[KUBECONFIG_KEY], validate=True).decode()
    except (KeyError, ValueError):
        raise AccessSecretIncomplete(secret) from None


def api_server_ca_in(secret: Secret) -> bytes | None:
    """Return the CA of the API server's client certificate in PEM form, None where none is given.

    Raises AccessSecretUnusable for anything else: a Watcher that trusts nobody would report no change.
    """
    encoded = secret.data.get(API_SERVER_CA_KEY)
    if encoded is None:
        return None
    try:
        pem = base64.b64decode(encoded, validate=True)
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise AccessSecretUnusable(secret, f"the key {API_SERVER_CA_KEY!r} holds no certificates in PEM form") from None
    return pem


def server_of(secret: Secret) -> str | None:
    """Return the address of the API server that an access Secret leads to; None where it has none."""
    try:
        return server_of_kubeconfig(kubeconfig_in(secret)).lower().removesuffix(":443")
    except (AccessSecretIncomplete, KubeconfigInvalid):
        return None
