"""Tokens of ServiceAccounts that a local cluster accepts, of any age: signed with its own key."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kyma_local.cluster import LocalCluster

ISSUER = "https://kubernetes.default.svc"


def signed_token(cluster: LocalCluster, account: dict[str, Any], *, issued: datetime, lifetime: timedelta) -> str:
    """Return a token of a ServiceAccount as the API server would have issued it then."""
    name, namespace, uid = (account["metadata"][key] for key in ("name", "namespace", "uid"))
    begin = int(issued.timestamp())
    claims = {
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "iat": begin,
        "nbf": begin,
        "exp": begin + int(lifetime.total_seconds()),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
    }
    text = f"{_encoded({'alg': 'ES256', 'typ': 'JWT'})}.{_encoded(claims)}"
    key = load_pem_private_key((cluster.directory / "service-account.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    halves = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(SHA256())))
    return f"{text}.{_base64(b''.join(each.to_bytes(32) for each in halves))}"


def _encoded(part: dict[str, Any]) -> str:
    return _base64(json.dumps(part).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
