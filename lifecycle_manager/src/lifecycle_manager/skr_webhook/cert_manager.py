"""The Watchers' certificates where cert-manager issues them: LM applies Certificates and reads the Secrets of those.

The Issuer uses the Secret of LM's CAs, so trust and the rotation of CAs are the same as without cert-manager. It renews
certificates before they expire; where one may not stay for another reason, LM sets the condition that `cmctl renew`
sets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_runtime import Client, Clock, Informer, ObjectKey, Resource
from kyma_certs import Algorithm, CAs, KeyPair, LeafRequest
from lifecycle_manager.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.skr_webhook.ca_store import CA_SECRET
from lifecycle_manager.skr_webhook.certificates import (
    CertificateMemory,
    CertificateStore,
    LeafRules,
    may_stay,
    owner_references,
)
from lifecycle_manager.skr_webhook.tls_secret import key_pair_in
from lifecycle_manager_api import Kyma, names

GROUP, VERSION = "cert-manager.io", "v1"
ISSUERS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, VERSION, "Issuer", "issuers", namespaced=True)
CERTIFICATES: Resource[dict[str, Any]] = Resource.dynamic(
    GROUP, VERSION, "Certificate", "certificates", namespaced=True
)
REAPPLY_SECONDS = 600.0
REQUEST_AGAIN_SECONDS = 15.0


class CertificatePending(Exception):
    """cert-manager has not issued the certificate yet."""


@dataclass(eq=False)
class CertManagerStore:
    """Keeps an Issuer, and a Certificate for each Kyma's Watcher.

    `count` is called for each renewal that was requested.
    """

    kcp: Client
    secrets: Informer[Secret]
    clock: Clock
    rules: LeafRules
    ca_secret: str = CA_SECRET
    issuer: str = "klm-watcher-selfsigned"
    count: Callable[[], object] = lambda: None
    _issuer_memory: CertificateMemory = field(default_factory=CertificateMemory, init=False)

    async def ensure(self, kyma: Kyma, cas: CAs, memory: CertificateMemory) -> KeyPair:
        """Return the certificate of a Kyma's Watcher.

        Raises CertificatePending, CertificatesRevoked, NameReserved, NameRefused, or KubeError.
        """
        name = self.rules.name(kyma)
        request = self.rules.request(kyma, self.clock.now())
        await self._keep(ISSUERS, self._issuer(), self._issuer_memory)
        await self._keep(CERTIFICATES, self._certificate(name, kyma, request), memory)
        secret = self.secrets.get(ObjectKey(names.KCP_NAMESPACE, name))
        pair = key_pair_in(secret) if secret is not None else None
        if secret is None or pair is None:
            raise CertificatePending(f"cert-manager has not issued Certificate {names.KCP_NAMESPACE}/{name} yet")
        if not may_stay(pair, request, cas):
            await self._request_renewal(name, memory)
            raise CertificatePending(f"cert-manager has not renewed Certificate {names.KCP_NAMESPACE}/{name} yet")
        if not secret.metadata.owner_references:
            patch = {"metadata": {"ownerReferences": owner_references(kyma)}}
            await self.kcp.merge_patch(SECRETS, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        return pair

    async def _keep(
        self, resource: Resource[dict[str, Any]], document: dict[str, Any], memory: CertificateMemory
    ) -> None:
        """Apply an object where it differs from the one applied before, or that was long ago."""
        text, now = msgspec.json.encode(document), self.clock.monotonic()
        if memory.applied == text and now - memory.applied_at < REAPPLY_SECONDS:
            return
        name = document["metadata"]["name"]
        await self.kcp.apply(resource, name, document, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        memory.applied, memory.applied_at = text, now

    async def _request_renewal(self, name: str, memory: CertificateMemory) -> None:
        """Have cert-manager issue a certificate anew, unless that was requested a moment ago."""
        now = self.clock.monotonic()
        if now - memory.renewal_requested_at < REQUEST_AGAIN_SECONDS:
            return
        condition = {
            "type": "Issuing",
            "status": "True",
            "reason": "CAOrRevocationChanged",
            "message": "the CA or the revocation has changed",
            "lastTransitionTime": self.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z"),
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
        memory.renewal_requested_at = now
        self.count()

    def _issuer(self) -> dict[str, Any]:
        return _document(ISSUERS, self.issuer) | {"spec": {"ca": {"secretName": self.ca_secret}}}

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


LeafStore = CertificateStore | CertManagerStore
"""Where the certificates of the Watchers come from."""


def _document(resource: Resource[Any], name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _key(request: LeafRequest) -> dict[str, Any]:
    keys: dict[Algorithm, dict[str, Any]] = {
        Algorithm.ECDSA_P256: {"algorithm": "ECDSA", "size": 256},
        Algorithm.ED25519: {"algorithm": "Ed25519"},
        Algorithm.RSA: {"algorithm": "RSA", "size": request.rsa_key_size},
    }
    return keys[request.algorithm]


def _go_duration(seconds: float) -> str:
    """Return a duration as Go formats it, so that the stored object equals the applied one."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s"
