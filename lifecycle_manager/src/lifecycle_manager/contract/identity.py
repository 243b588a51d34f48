"""The runtime id: the name of an SKR outside of LM."""

from lifecycle_manager_api import Kyma, names


def runtime_id_of(kyma: Kyma) -> str:
    """Return the runtime id of a Kyma's SKR: its label, or the Kyma's name where an older set-up has no label.

    It is the common name of the Watcher's certificate, and so the identity of the sender of an event.
    """
    labels = kyma.metadata.labels
    return labels.get(names.RUNTIME_ID) or labels.get(names.KYMA_NAME) or kyma.metadata.name
