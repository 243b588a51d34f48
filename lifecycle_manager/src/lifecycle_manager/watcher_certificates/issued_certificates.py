"""The Watchers' certificates where another program issues them: LM applies an Issuer and Certificates, reads Secrets.

What such a program is called, and what its objects look like, is in the subclasses. The Issuer uses the Secret of LM's
CAs, so trust and the rotation of CAs are the same as without. The program renews certificates before they expire; where
one may not stay for another reason, LM requests that.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from kube_runtime import Resource
from kyma_certs import CAs, KeyPair, LeafRequest
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.watcher_certificates.ca_store import CA_SECRET
from lifecycle_manager.watcher_certificates.certificates import (
    CertificateMemory,
    LeafStore,
    labels_of,
    may_stay,
    owner_references,
    request_of,
)
from lifecycle_manager.watcher_certificates.tls_secret import key_pair_in
from lifecycle_manager_api import Kyma, names

REAPPLY_SECONDS = 600.0
REQUEST_AGAIN_SECONDS = 15.0
Document = dict[str, Any]


class CertificatePending(Exception):
    """The certificate has not been issued yet."""


@dataclass(eq=False)
class IssuedCertificates(LeafStore):
    """Keeps an Issuer, and a Certificate for each Kyma's Watcher."""

    program: ClassVar[str]
    issuers: ClassVar[Resource[Document]]
    certificates: ClassVar[Resource[Document]]

    ca_secret: str = CA_SECRET
    issuer: str = "klm-watcher-selfsigned"
    issuer_namespace: str = names.KCP_NAMESPACE
    _issuer_memory: CertificateMemory = field(default_factory=CertificateMemory, init=False)

    async def ensure(self, kyma: Kyma, cas: CAs, memory: CertificateMemory) -> KeyPair:
        name = self.rules.name(kyma)
        request = request_of(self.rules, kyma, self.clock.now())
        issuer = document_of(self.issuers, self.issuer, self.issuer_namespace) | {"spec": self.issuer_spec()}
        await self._keep(self.issuers, issuer, self._issuer_memory)
        await self._keep(self.certificates, self._certificate(name, kyma, request), memory)
        secret = self.secret_of(kyma)
        pair = key_pair_in(secret) if secret is not None else None
        certificate = f"Certificate {names.KCP_NAMESPACE}/{name}"
        if secret is None or pair is None:
            raise CertificatePending(f"{self.program} has not issued {certificate} yet")
        if not may_stay(pair, request, cas):
            await self._renew(name, memory)
            raise CertificatePending(f"{self.program} has not renewed {certificate} yet")
        await self.own(secret, kyma)
        return pair

    @abstractmethod
    def issuer_spec(self) -> Document:
        """Return the spec of the Issuer."""

    @abstractmethod
    def certificate_spec(self, name: str, labels: dict[str, str], request: LeafRequest) -> Document:
        """Return the spec of a Certificate, with the labels of its Secret."""

    @abstractmethod
    async def request_renewal(self, name: str) -> None:
        """Have a certificate issued anew. Raises KubeError."""

    async def _keep(self, resource: Resource[Document], document: Document, memory: CertificateMemory) -> None:
        """Apply an object where it differs from the one applied before, or that was long ago."""
        text, now = msgspec.json.encode(document), self.clock.monotonic()
        if memory.applied == text and now - memory.applied_at < REAPPLY_SECONDS:
            return
        metadata = document["metadata"]
        await self.kcp.apply(resource, metadata["name"], document, metadata["namespace"], field_manager=FIELD_MANAGER)
        memory.applied, memory.applied_at = text, now

    async def _renew(self, name: str, memory: CertificateMemory) -> None:
        """Have a certificate issued anew, unless that was requested a moment ago."""
        now = self.clock.monotonic()
        if now - memory.renewal_requested_at < REQUEST_AGAIN_SECONDS:
            return
        await self.request_renewal(name)
        memory.renewal_requested_at = now
        self.count()

    def _certificate(self, name: str, kyma: Kyma, request: LeafRequest) -> Document:
        document, labels = document_of(self.certificates, name), labels_of(kyma)
        document["metadata"] |= {"labels": labels, "ownerReferences": owner_references(kyma)}
        return document | {"spec": self.certificate_spec(name, labels, request)}


def document_of(resource: Resource[Any], name: str, namespace: str = names.KCP_NAMESPACE) -> Document:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def kinds_of(group: str, version: str) -> tuple[Resource[dict[str, Any]], Resource[dict[str, Any]]]:
    """Return the Issuers and Certificates of a program."""
    issuers = Resource.dynamic(group, version, "Issuer", "issuers", namespaced=True)
    return issuers, Resource.dynamic(group, version, "Certificate", "certificates", namespaced=True)


def go_duration(seconds: float) -> str:
    """Return a duration as Go formats it, so that the stored object equals the applied one."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s"
