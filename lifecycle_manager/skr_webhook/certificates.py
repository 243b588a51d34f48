"""The certificate of each SKR's Watcher: what it serves the webhook with, and who it is towards KCP.

Its common name is the runtime id, and that is all that the event endpoint believes about where an event comes from.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from certs import Algorithm, KeyPair, LeafRequest, describe, issue, renewal_due
from kube_runtime import Client, Informer, ObjectKey
from lifecycle_manager.resources import FIELD_MANAGER, KYMAS, SECRETS, Secret
from lifecycle_manager.skr.identity import runtime_id_of
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


@dataclass(eq=False)
class CertificateStore:
    """Keeps one certificate for each Kyma's Watcher in a Secret in KCP, and renews it ahead of its end."""

    kcp: Client
    secrets: Informer[Secret]
    clock: Callable[[], datetime]
    lifetime: timedelta = timedelta(days=90)
    renew_before: timedelta = timedelta(days=60)
    algorithm: Algorithm = Algorithm.ECDSA_P256
    additional_dns_names: tuple[str, ...] = ()
    naming_template: str = "%s-webhook-tls"

    async def ensure(self, kyma: Kyma, authority: KeyPair) -> KeyPair:
        """Return the certificate of a Kyma's Watcher, issued anew where it is missing, due or of another name."""
        name = self.naming_template % kyma.metadata.name
        request = self._request(kyma)
        known = self.secrets.cache.get(ObjectKey(names.KCP_NAMESPACE, name))
        pair = key_pair_in(known) if known is not None else None
        if pair is not None and self._serves(pair, request):
            return pair
        pair = await asyncio.to_thread(issue, authority, request, now=self.clock())
        await self.kcp.apply(
            SECRETS,
            name,
            self._document(kyma, name, pair, authority),
            names.KCP_NAMESPACE,
            field_manager=FIELD_MANAGER,
        )
        return pair

    def _request(self, kyma: Kyma) -> LeafRequest:
        domain = kyma.metadata.annotations.get(names.SKR_DOMAIN)
        return LeafRequest(
            common_name=runtime_id_of(kyma),
            dns_names=(*SERVICE_NAMES, *((domain,) if domain else ()), *self.additional_dns_names),
            lifetime=self.lifetime,
            algorithm=self.algorithm,
        )

    def _serves(self, pair: KeyPair, request: LeafRequest) -> bool:
        shown = describe(pair.certificate_pem)
        return (
            shown.common_name == request.common_name
            and set(shown.dns_names) == set(request.dns_names)
            and not renewal_due(pair.certificate_pem, renew_before=self.renew_before, now=self.clock())
        )

    def _document(self, kyma: Kyma, name: str, pair: KeyPair, authority: KeyPair) -> dict[str, object]:
        labels = purpose_labels(CERTIFICATE_PURPOSE) | {names.KYMA_NAME: kyma.metadata.name}
        document = tls_secret_document(name, names.KCP_NAMESPACE, pair, authority.certificate_pem, labels)
        document["metadata"]["ownerReferences"] = [
            {
                "apiVersion": KYMAS.api_version,
                "kind": KYMAS.kind,
                "name": kyma.metadata.name,
                "uid": kyma.metadata.uid,
            }
        ]
        return document
