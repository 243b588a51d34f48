"""The Watchers' certificates where cert-manager issues them: we say what we want, and follow the Secrets it writes.

Its Issuer takes our authority's Secret for its CA, so that whom to trust, and how one authority gives way to the next,
are the same as without it. It renews ahead of time by itself; where a certificate may not stay for another reason, it
is told to by the condition that `cmctl renew` sets.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from kube_runtime import Client, Informer, ObjectKey, Resource
from kyma_certs import Algorithm, Authorities, KeyPair, LeafRequest
from lifecycle_manager.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.skr_webhook.certificates import LeafRules, may_stay, nobody_counts, owner_references
from lifecycle_manager.skr_webhook.tls_secret import key_pair_in
from lifecycle_manager_api import Kyma, names

GROUP, VERSION = "cert-manager.io", "v1"
ISSUERS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, VERSION, "Issuer", "issuers", namespaced=True)
CERTIFICATES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, VERSION, "Certificate", "certificates", namespaced=True
)
LOOK_AGAIN_SECONDS = 600.0
TELL_AGAIN_SECONDS = 15.0


class CertificatePending(Exception):
    """cert-manager has not issued the certificate yet; its Secret wakes the Kyma."""


@dataclass(eq=False)
class CertManagerStore:
    """Keeps an Issuer, and for each Kyma's Watcher a Certificate, whose Secret is followed.

    `count` is told of each that was asked for anew.
    """

    kcp: Client
    secrets: Informer[Secret]
    clock: Callable[[], datetime]
    rules: LeafRules
    authority_secret: str
    issuer: str = "klm-watcher-selfsigned"
    count: Callable[[], None] = nobody_counts
    _applied: dict[str, tuple[bytes, float]] = field(default_factory=dict, init=False)
    _told: dict[str, float] = field(default_factory=dict, init=False)

    async def ensure(self, kyma: Kyma, authorities: Authorities) -> KeyPair:
        """Return the certificate of a Kyma's Watcher.

        Raises CertificatePending, CertificatesRevoked, NameReserved, NameRefused, or KubeError.
        """
        name = self.rules.name(kyma)
        request = self.rules.request(kyma, self.clock())
        await self._keep(ISSUERS, self.issuer, self._issuer())
        await self._keep(CERTIFICATES, name, self._certificate(name, kyma, request))
        secret = self.secrets.cache.get(ObjectKey(names.KCP_NAMESPACE, name))
        pair = key_pair_in(secret) if secret is not None else None
        if secret is None or pair is None:
            raise CertificatePending(f"cert-manager has not issued Certificate {names.KCP_NAMESPACE}/{name} yet")
        if not may_stay(pair, request, authorities):
            await self._have_renewed(name)
            raise CertificatePending(f"cert-manager is to issue Certificate {names.KCP_NAMESPACE}/{name} anew")
        if not secret.metadata.owner_references:
            patch = {"metadata": {"ownerReferences": owner_references(kyma)}}
            await self.kcp.merge_patch(SECRETS, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        return pair

    async def _keep(self, resource: Resource[dict[str, Any]], name: str, document: dict[str, Any]) -> None:
        """Apply an object where it is another than before, or it is time to see that it is still there."""
        key, text = f"{resource.plural}/{name}", msgspec.json.encode(document)
        applied, at = self._applied.get(key, (b"", 0.0))
        if applied == text and time.monotonic() - at < LOOK_AGAIN_SECONDS:
            return
        await self.kcp.apply(resource, name, document, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        self._applied[key] = (text, time.monotonic())

    async def _have_renewed(self, name: str) -> None:
        """Tell cert-manager to issue a certificate anew, unless it was told a moment ago."""
        if time.monotonic() - self._told.get(name, -TELL_AGAIN_SECONDS) < TELL_AGAIN_SECONDS:
            return
        condition = {
            "type": "Issuing",
            "status": "True",
            "reason": "AuthorityOrRevocationChanged",
            "message": "the certificate there may not stay",
            "lastTransitionTime": self.clock().isoformat().replace("+00:00", "Z"),
        }
        document = _document(CERTIFICATES, name) | {"status": {"conditions": [condition]}}
        await self.kcp.apply(
            CERTIFICATES,
            name,
            document,
            names.KCP_NAMESPACE,
            field_manager=f"{FIELD_MANAGER}-renewal",
            subresource="status",
        )
        self._told[name] = time.monotonic()
        self.count()

    def _issuer(self) -> dict[str, Any]:
        return _document(ISSUERS, self.issuer) | {"spec": {"ca": {"secretName": self.authority_secret}}}

    def _certificate(self, name: str, kyma: Kyma, request: LeafRequest) -> dict[str, Any]:
        document = _document(CERTIFICATES, name)
        document["metadata"] |= {"labels": self.rules.labels(kyma), "ownerReferences": owner_references(kyma)}
        return document | {
            "spec": {
                "secretName": name,
                "secretTemplate": {"labels": self.rules.labels(kyma)},
                "issuerRef": {"group": GROUP, "kind": "Issuer", "name": self.issuer},
                "commonName": request.common_name,
                "dnsNames": list(request.dns_names),
                "usages": ["digital signature", "key encipherment", "client auth", "server auth"],
                "duration": _go_duration(request.lifetime.total_seconds()),
                "renewBefore": _go_duration(self.rules.renew_before.total_seconds()),
                "privateKey": {"rotationPolicy": "Always", "encoding": "PKCS8", **_key(request)},
            }
        }


def _document(resource: Resource[Any], name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _key(request: LeafRequest) -> dict[str, Any]:
    match request.algorithm:
        case Algorithm.ECDSA_P256:
            return {"algorithm": "ECDSA", "size": 256}
        case Algorithm.ED25519:
            return {"algorithm": "Ed25519"}
        case Algorithm.RSA:
            return {"algorithm": "RSA", "size": request.rsa_key_size}


def _go_duration(seconds: float) -> str:
    """Write a duration as Go does, so that what is stored is what was applied."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s"
