"""A certificate, its key and the trusted CAs as a Kubernetes Secret."""

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kyma_certs import KeyPair, describe, has_own_key
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager_api import names

CA_PURPOSE = "watcher-ca"
CERTIFICATE_PURPOSE = "watcher-certificate"


def tls_secret_document(
    name: str,
    namespace: str,
    pair: KeyPair,
    *,
    trust: bytes,
    labels: Mapping[str, str] = MappingProxyType({}),
    kind: str = "kubernetes.io/tls",
) -> dict[str, Any]:
    """Return the Secret that holds a key pair under `tls.crt` and `tls.key`, and the trusted CAs under `ca.crt`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace} | ({"labels": dict(labels)} if labels else {}),
        "type": kind,
        "data": {
            "tls.crt": encoded(pair.certificate_pem),
            "tls.key": encoded(pair.key_pem),
            "ca.crt": encoded(trust),
        },
    }


def key_pair_in(secret: Secret, name: str = "tls") -> KeyPair | None:
    """Return the key pair of a Secret, or None where it has none of that name.

    What is no certificate, or has another key, is none.
    """
    certificate, key = secret.data.get(f"{name}.crt"), secret.data.get(f"{name}.key")
    if not certificate or not key:
        return None
    try:
        pair = KeyPair(certificate_pem=base64.b64decode(certificate), key_pem=base64.b64decode(key))
        describe(pair.certificate_pem)  # whoever gets the pair reads more of it than its key
        return pair if has_own_key(pair) else None
    except ValueError:
        return None


def purpose_labels(purpose: str) -> dict[str, str]:
    return {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.PURPOSE: purpose}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
