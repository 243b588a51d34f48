"""By which name a user cluster is known to the world outside: its runtime id."""

from lifecycle_manager_api import Kyma, names


def runtime_id_of(kyma: Kyma) -> str:
    """Return the runtime id of a Kyma's cluster: its label, or, where an older set-up has none, the Kyma's name.

    It is the common name of the Watcher's certificate, and so the identity that an event arrives with.
    """
    labels = kyma.metadata.labels
    return labels.get(names.RUNTIME_ID) or labels.get(names.KYMA_NAME) or kyma.metadata.name
