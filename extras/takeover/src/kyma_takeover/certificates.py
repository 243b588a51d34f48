"""Adopts the CA of the former version, so that the Watchers which it installed are trusted, and trust, without a break.

cert-manager issued that CA into a Secret in the namespace of Istio. Clusters may also trust those before it, which are
in the bundle of the gateway. The CA is replaced by one of this version's own as soon as every cluster trusts that.
"""

import base64

from kube_runtime import Client, NotFound
from kyma_certs import CAs, KeyPair, bundle
from lifecycle_manager.contract.resources import SECRETS, Secret

CA_SECRET = "klm-watcher"  # noqa: S105 - a name
GATEWAY_SECRET = "klm-istio-gateway"  # noqa: S105 - a name


async def find_former_cas(kcp: Client, namespace: str) -> CAs | None:
    """Return the CA in a namespace, with those before it that clusters may trust. Raises KubeError.

    None where there is none, or no namespace.
    """
    secret = await read_secret(kcp, CA_SECRET, namespace) if namespace else None
    if secret is None or not secret.data.get("tls.crt") or not secret.data.get("tls.key"):
        return None
    pair = KeyPair(certificate_pem=_decoded(secret, "tls.crt"), key_pem=_decoded(secret, "tls.key"))
    gateway = await read_secret(kcp, GATEWAY_SECRET, namespace)
    trusted = [_decoded(gateway, "ca.crt")] if gateway is not None and gateway.data.get("ca.crt") else []
    older = bundle([pair.certificate_pem, *trusted]).removeprefix(bundle([pair.certificate_pem]))
    return CAs(pair, former_pem=older or None)


async def read_secret(kcp: Client, name: str, namespace: str) -> Secret | None:
    """Return a Secret; None where there is none. Raises KubeError."""
    try:
        return await kcp.get(SECRETS, name, namespace)
    except NotFound:
        return None


def _decoded(secret: Secret, key: str) -> bytes:
    return base64.b64decode(secret.data[key])
