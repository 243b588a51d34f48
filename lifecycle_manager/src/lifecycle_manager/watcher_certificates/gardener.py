"""The Watchers' certificates where Gardener's certificate management issues them, by option.

It adds the common name to the DNS names of a certificate, makes no Ed25519 keys, and expects the Issuer in a namespace
of its own configuration.
"""

from dataclasses import dataclass

from kyma_certs import Algorithm, LeafRequest
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.watcher_certificates.issued_certificates import (
    Document,
    IssuedCertificates,
    go_duration,
    kinds_of,
)
from lifecycle_manager_api import names

ISSUERS, CERTIFICATES = kinds_of("cert.gardener.cloud", "v1alpha1")


@dataclass(eq=False)
class GardenerStore(IssuedCertificates):
    """A renewal is requested by the field `renew`, which Gardener removes; it notes the time in another field."""

    program = "Gardener's certificate management"
    issuers = ISSUERS
    certificates = CERTIFICATES

    def issuer_spec(self) -> Document:
        return {"ca": {"privateKeySecretRef": {"name": self.ca_secret, "namespace": names.KCP_NAMESPACE}}}

    def certificate_spec(self, name: str, labels: dict[str, str], request: LeafRequest) -> Document:
        is_rsa = request.algorithm is Algorithm.RSA
        key = {"algorithm": "RSA", "size": request.rsa_key_size} if is_rsa else {"algorithm": "ECDSA", "size": 256}
        return {
            "secretName": name,
            "secretLabels": labels,
            "issuerRef": {"name": self.issuer, "namespace": self.issuer_namespace},
            "commonName": request.common_name,
            "dnsNames": list(request.dns_names),
            "duration": go_duration(request.lifetime.total_seconds()),
            "renewBefore": go_duration(self.rules.renew_before.total_seconds()),
            "privateKey": {"encoding": "PKCS8", **key},
        }

    async def request_renewal(self, name: str) -> None:
        patch = {"spec": {"renew": True, "ensureRenewedAfter": None}}
        await self.kcp.merge_patch(
            CERTIFICATES, name, patch, names.KCP_NAMESPACE, field_manager=f"{FIELD_MANAGER}-renewal"
        )
