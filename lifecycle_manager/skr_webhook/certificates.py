"""The certificate of each SKR's Watcher: what it serves the webhook with, and who it is towards KCP.

Its common name is the runtime id, and that is all that the event endpoint believes about where an event comes from.
Several replicas may issue at once: a Secret is created or replaced in the version that was read, and whoever comes
second takes what is there.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from certs import Algorithm, Authorities, KeyPair, LeafRequest, describe, issue, renewal_due
from kube_runtime import AlreadyExists, Client, Conflict, Informer, ObjectKey
from lifecycle_manager.resources import FIELD_MANAGER, KYMAS, SECRETS, Secret
from lifecycle_manager.skr.identity import runtime_id_of
from lifecycle_manager.skr.revocation import revoked_before
from lifecycle_manager.skr_webhook.tls_secret import (
    CERTIFICATE_PURPOSE,
    key_pair_in,
    purpose_labels,
    tls_secret_document,
)
from lifecycle_manager_api import Kyma, names

SERVICE_NAMES = (
    f"skr-webhook.{names.SKR_NAMESPACE}.svc",
    f"skr-webhook.{names.SKR_NAMESPACE}.svc.cluster.local",
    f"skr-webhook.{names.SKR_NAMESPACE}",
)


class CertificatesRevoked(Exception):
    """No certificate may be issued now: an operator revoked all that begin before a time that is still to come."""


class CertificateContended(Exception):
    """The certificate's Secret changed while it was being written, and not into one that serves."""


class NameReserved(Exception):
    """A cluster's domain is a name of the control plane, which no Watcher's certificate may bear."""


@dataclass(eq=False)
class CertificateStore:
    """Keeps one certificate for each Kyma's Watcher in a Secret in KCP, and renews it ahead of its end.

    `reserved_names` are those of the control plane: a Watcher that bore one could pass for it.
    """

    kcp: Client
    secrets: Informer[Secret]
    clock: Callable[[], datetime]
    lifetime: timedelta = timedelta(days=90)
    renew_before: timedelta = timedelta(days=60)
    algorithm: Algorithm = Algorithm.ECDSA_P256
    rsa_key_size: int = 4096
    additional_dns_names: tuple[str, ...] = ()
    reserved_names: tuple[str, ...] = ()
    naming_template: str = "%s-webhook-tls"

    async def ensure(self, kyma: Kyma, authorities: Authorities) -> KeyPair:
        """Return the certificate of a Kyma's Watcher, issued anew where the one there may not stay.

        Raises CertificatesRevoked, CertificateContended, NameReserved, NameRefused, or KubeError.
        """
        name = self.naming_template % kyma.metadata.name
        request = self._request(kyma)
        known = self.secrets.cache.get(ObjectKey(names.KCP_NAMESPACE, name))
        pair = key_pair_in(known) if known is not None else None
        if pair is not None and self._serves(pair, request, authorities):
            return pair
        pair = await asyncio.to_thread(issue, authorities.signing, request, now=self.clock())
        document = self._document(kyma, name, pair, authorities)
        return await self._store(name, document, known) or await self._of_somebody_else(name, request, authorities)

    async def _store(self, name: str, document: dict[str, object], known: Secret | None) -> KeyPair | None:
        """Store a certificate in place of the one that was read; None where another replica was quicker."""
        namespace = names.KCP_NAMESPACE
        try:
            if known is None:
                stored = await self.kcp.create(SECRETS, document, namespace, field_manager=FIELD_MANAGER)
            else:
                patch = {"metadata": {"resourceVersion": known.metadata.resource_version}, "data": document["data"]}
                stored = await self.kcp.merge_patch(SECRETS, name, patch, namespace, field_manager=FIELD_MANAGER)
        except (AlreadyExists, Conflict):
            return None
        return key_pair_in(stored)

    async def _of_somebody_else(self, name: str, request: LeafRequest, authorities: Authorities) -> KeyPair:
        """Return what another replica issued meanwhile. Raises CertificateContended where that may not stay."""
        pair = key_pair_in(await self.kcp.get(SECRETS, name, names.KCP_NAMESPACE))
        if pair is None or not self._serves(pair, request, authorities):
            raise CertificateContended(f"Secret {names.KCP_NAMESPACE}/{name} changed while it was being written")
        return pair

    def _request(self, kyma: Kyma) -> LeafRequest:
        domain = kyma.metadata.annotations.get(names.SKR_DOMAIN)
        if domain and any(_covers(domain, name) for name in self.reserved_names):
            raise NameReserved(f"the domain {domain!r} of the cluster is a name of the control plane")
        not_before = revoked_before(kyma)
        if not_before is not None and not_before > self.clock():
            raise CertificatesRevoked(
                f"an operator revoked the certificates that begin before {not_before.isoformat()}"
            )
        wanted = dict.fromkeys((*SERVICE_NAMES, *((domain,) if domain else ()), *self.additional_dns_names))
        return LeafRequest(
            common_name=runtime_id_of(kyma),
            dns_names=tuple(name for name in wanted if not any(_covers(name, each) for each in self.reserved_names)),
            lifetime=self.lifetime,
            not_before=not_before,
            algorithm=self.algorithm,
            rsa_key_size=self.rsa_key_size,
        )

    def _serves(self, pair: KeyPair, request: LeafRequest, authorities: Authorities) -> bool:
        """Tell whether a certificate may stay: it says what it should, in time, by an authority that lasts."""
        shown = describe(pair.certificate_pem)
        return (
            shown.common_name == request.common_name
            and set(shown.dns_names) == set(request.dns_names)
            and (request.not_before is None or shown.not_before >= request.not_before)
            and not renewal_due(pair.certificate_pem, renew_before=self.renew_before, now=self.clock())
            and authorities.vouch_for(pair.certificate_pem)
        )

    def _document(self, kyma: Kyma, name: str, pair: KeyPair, authorities: Authorities) -> dict[str, object]:
        labels = purpose_labels(CERTIFICATE_PURPOSE) | {names.KYMA_NAME: kyma.metadata.name}
        document = tls_secret_document(name, names.KCP_NAMESPACE, pair, authorities.trusted, labels)
        document["metadata"]["ownerReferences"] = [
            {
                "apiVersion": KYMAS.api_version,
                "kind": KYMAS.kind,
                "name": kyma.metadata.name,
                "uid": kyma.metadata.uid,
            }
        ]
        return document


def _covers(pattern: str, name: str) -> bool:
    """Tell whether a name in a certificate, which may begin with a wildcard, stands for another."""
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".")
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name
