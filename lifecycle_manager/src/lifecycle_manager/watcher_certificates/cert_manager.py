"""The Watchers' certificates where cert-manager issues them."""

from dataclasses import dataclass

from kyma_certs import Algorithm, LeafRequest
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.watcher_certificates.issued_certificates import (
    Document,
    IssuedCertificates,
    document_of,
    go_duration,
    kinds_of,
)
from lifecycle_manager_api import names

GROUP = "cert-manager.io"
ISSUERS, CERTIFICATES = kinds_of(GROUP, "v1")


@dataclass(eq=False)
class CertManagerStore(IssuedCertificates):
    """A renewal is requested by the condition that `cmctl renew` sets."""

    program = "cert-manager"
    issuers = ISSUERS
    certificates = CERTIFICATES

    def issuer_spec(self) -> Document:
        return {"ca": {"secretName": self.ca_secret}}

    def certificate_spec(self, name: str, labels: dict[str, str], request: LeafRequest) -> Document:
        return {
            "secretName": name,
            "secretTemplate": {"labels": labels},
            "issuerRef": {"group": GROUP, "kind": "Issuer", "name": self.issuer},
            "commonName": request.common_name,
            "dnsNames": list(request.dns_names),
            "usages": ["digital signature", "key encipherment", "client auth", "server auth"],
            "duration": go_duration(request.lifetime.total_seconds()),
            "renewBefore": go_duration(self.rules.renew_before.total_seconds()),
            "privateKey": {"rotationPolicy": "Always", "encoding": "PKCS8", **_key(request)},
        }

    async def request_renewal(self, name: str) -> None:
        condition = {
            "type": "Issuing",
            "status": "True",
            "reason": "CAOrRevocationChanged",
            "message": "the CA or the revocation has changed",
            "lastTransitionTime": self.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z"),
        }
        await self.kcp.apply(
            CERTIFICATES,
            name,
            document_of(CERTIFICATES, name) | {"status": {"conditions": [condition]}},
            names.KCP_NAMESPACE,
            field_manager=f"{FIELD_MANAGER}-renewal",
            subresource="status",
        )


def _key(request: LeafRequest) -> Document:
    keys: dict[Algorithm, Document] = {
        Algorithm.ECDSA_P256: {"algorithm": "ECDSA", "size": 256},
        Algorithm.ED25519: {"algorithm": "Ed25519"},
        Algorithm.RSA: {"algorithm": "RSA", "size": request.rsa_key_size},
    }
    return keys[request.algorithm]
