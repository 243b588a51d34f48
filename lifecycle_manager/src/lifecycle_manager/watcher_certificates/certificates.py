"""The certificate of each SKR's Watcher, with which it serves the webhook and authenticates itself to KCP.

Its common name is the runtime id, and the event endpoint trusts nothing else about where an event comes from. Several
replicas may issue at once: a Secret is created, or replaced in the version that was read, and the second replica takes
what exists.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from kube_runtime import AlreadyExists, Client, Clock, Conflict, Informer, ObjectKey
from kyma_certs import (
    Algorithm,
    CAs,
    KeyPair,
    LeafRequest,
    NameRefused,
    describe,
    is_dns_name,
    issue,
    key_of,
    renewal_due,
)
from lifecycle_manager.contract.identity import runtime_id_of
from lifecycle_manager.contract.resources import FIELD_MANAGER, KYMAS, SECRETS, Secret
from lifecycle_manager.options.watcher import LeafRules
from lifecycle_manager.skr.access import OUR_SECRETS
from lifecycle_manager.skr.revocation import FOREVER, revoked_before
from lifecycle_manager.watcher_certificates.tls_secret import (
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
    """No certificate may be issued now: an operator revoked all that are valid from before a time in the future."""


class CertificateContended(Exception):
    """The certificate's Secret changed while it was being written, and its new content can't be used."""


class NameReserved(Exception):
    """The domain of an SKR is a name of KCP, which no Watcher's certificate may have."""


def is_overdue(rules: LeafRules, certificate_pem: bytes, cas: CAs, now: datetime) -> bool:
    """Tell whether a certificate should have been replaced: it ends soon, or its CA issues no more."""
    if renewal_due(certificate_pem, renew_before=rules.renew_before - rules.renewal_buffer, now=now):
        return True
    is_late = cas.since is None or now >= cas.since + rules.renewal_buffer
    return is_late and not cas.issuer_stays(certificate_pem)


def request_of(rules: LeafRules, kyma: Kyma, now: datetime) -> LeafRequest:
    """Return what a Kyma's certificate has to contain. Raises CertificatesRevoked, NameReserved or NameRefused."""
    domain, runtime = kyma.metadata.annotations.get(names.SKR_DOMAIN), runtime_id_of(kyma)
    if domain and not is_dns_name(domain):
        raise NameRefused(f"annotation {names.SKR_DOMAIN}: {domain[:80]!r} is no DNS name")
    if domain and any(_covers(domain, name) for name in rules.reserved_names):
        raise NameReserved(f"annotation {names.SKR_DOMAIN}: the domain {domain!r} is a name of the control plane")
    if any(_covers(runtime, name) for name in rules.reserved_names):  # Gardener makes it a DNS name
        raise NameReserved(f"the runtime id {runtime!r} is a name of the control plane")
    not_before = revoked_before(kyma)
    if not_before == FOREVER:
        text = kyma.metadata.annotations[names.REVOKED_BEFORE]
        raise CertificatesRevoked(
            f"annotation {names.REVOKED_BEFORE}: {text[:80]!r} is no time such as {now:%Y-%m-%dT%H:%M:%SZ}, so every "
            "certificate is revoked"
        )
    if not_before is not None and not_before > now:
        raise CertificatesRevoked(
            f"annotation {names.REVOKED_BEFORE}: certificates are revoked until {not_before.isoformat()}"
        )
    wanted = dict.fromkeys((*SERVICE_NAMES, *((domain,) if domain else ()), *rules.event_names.additional))
    return LeafRequest(
        common_name=runtime,
        dns_names=tuple(name for name in wanted if not any(_covers(name, each) for each in rules.reserved_names)),
        lifetime=rules.lifetime,
        not_before=not_before,
        algorithm=Algorithm(rules.algorithm),
        rsa_key_size=rules.rsa_key_size,
    )


def labels_of(kyma: Kyma) -> dict[str, str]:
    return purpose_labels(CERTIFICATE_PURPOSE) | {names.KYMA_NAME: kyma.metadata.name}


def may_stay(pair: KeyPair, request: LeafRequest, cas: CAs) -> bool:
    """Tell whether a certificate has the requested content and was issued by a CA that stays; expiry is not checked.

    The common name may be a DNS name too: Gardener's certificate management adds it.
    """
    shown = describe(pair.certificate_pem)
    return (
        shown.common_name == request.common_name
        and {*shown.dns_names, shown.common_name} == {*request.dns_names, request.common_name}
        and (request.not_before is None or shown.not_before >= request.not_before)
        and key_of(pair.certificate_pem) == request.key
        and cas.issuer_stays(pair.certificate_pem)
    )


def owner_references(kyma: Kyma) -> list[dict[str, str]]:
    """Return the owner references of an object that is garbage collected with a Kyma."""
    metadata = kyma.metadata
    return [{"apiVersion": KYMAS.api_version, "kind": KYMAS.kind, "name": metadata.name, "uid": metadata.uid}]


@dataclass(eq=False, slots=True)
class CertificateMemory:
    """What a process remembers of one certificate that another program issues; monotonic seconds."""

    applied: bytes = b""
    applied_at: float = float("-inf")
    renewal_requested_at: float = float("-inf")


@dataclass(eq=False)
class LeafStore(ABC):
    """Where the certificates of the Watchers come from. `count` is called for each that was issued, or has to be."""

    kcp: Client
    secrets: Informer[Secret]
    clock: Clock
    rules: LeafRules = field(default_factory=LeafRules)
    count: Callable[[], object] = lambda: None

    def secret_of(self, kyma: Kyma) -> Secret | None:
        return self.secrets.get(ObjectKey(names.KCP_NAMESPACE, self.rules.name(kyma)))

    def is_overdue(self, kyma: Kyma, cas: CAs) -> bool:
        """Tell whether the certificate that a Kyma's Watcher has should have been replaced."""
        secret = self.secret_of(kyma)
        pair = key_pair_in(secret) if secret is not None else None
        return pair is not None and is_overdue(self.rules, pair.certificate_pem, cas, self.clock.now())

    @abstractmethod
    async def ensure(self, kyma: Kyma, cas: CAs, memory: CertificateMemory) -> KeyPair:
        """Return the certificate of a Kyma's Watcher, issued anew where the existing one may not stay.

        Raises CertificatePending, CertificatesRevoked, CertificateContended, NameReserved, NameRefused, or KubeError.
        """

    async def own(self, secret: Secret, kyma: Kyma) -> None:
        """Have a Secret that was issued or restored without its Kyma as owner deleted with that. Raises KubeError."""
        if not secret.metadata.owner_references:
            name, patch = secret.metadata.name, {"metadata": {"ownerReferences": owner_references(kyma)}}
            await self.kcp.merge_patch(SECRETS, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)


@dataclass(eq=False)
class CertificateStore(LeafStore):
    """Keeps one certificate for each Kyma's Watcher in a Secret in KCP, and renews it before it expires."""

    async def ensure(self, kyma: Kyma, cas: CAs, memory: CertificateMemory) -> KeyPair:
        name = self.rules.name(kyma)
        request = request_of(self.rules, kyma, self.clock.now())
        known = self.secret_of(kyma)
        pair = key_pair_in(known) if known is not None else None
        if known is not None and pair is not None and self._is_valid(pair, request, cas):
            await self.own(known, kyma)
            return pair
        pair = await asyncio.to_thread(issue, cas.signing, request, now=self.clock.now())
        document = tls_secret_document(name, names.KCP_NAMESPACE, pair, trust=cas.trusted, labels=labels_of(kyma))
        document["metadata"]["ownerReferences"] = owner_references(kyma)
        try:
            stored = await self._store(name, document, known)
        except (AlreadyExists, Conflict):
            return await self._of_another_replica(name, request, cas)
        self.secrets.wrote(stored)
        self.count()
        return pair

    async def _store(self, name: str, document: dict[str, object], known: Secret | None) -> Secret:
        """Create the Secret, or replace the certificate in the version that was read."""
        if known is None:
            return await self.kcp.create(SECRETS, document, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        patch = {"metadata": {"resourceVersion": known.metadata.resource_version}, "data": document["data"]}
        return await self.kcp.merge_patch(SECRETS, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)

    async def _of_another_replica(self, name: str, request: LeafRequest, cas: CAs) -> KeyPair:
        """Return what another replica issued meanwhile. Raises CertificateContended where that may not stay."""
        secret = await self.kcp.get(SECRETS, name, names.KCP_NAMESPACE)
        pair = key_pair_in(secret)
        if pair is None or not self._is_valid(pair, request, cas):
            is_ours = secret.metadata.labels.get(names.MANAGED_BY) == names.LIFECYCLE_MANAGER
            why = "changed while it was being written" if is_ours else f"has no label {OUR_SECRETS}; delete it"
            raise CertificateContended(f"Secret {names.KCP_NAMESPACE}/{name} {why}")
        return pair

    def _is_valid(self, pair: KeyPair, request: LeafRequest, cas: CAs) -> bool:
        """Tell whether a certificate may stay. One that is not valid yet was issued by a clock that was wrong."""
        now = self.clock.now()
        due = renewal_due(pair.certificate_pem, renew_before=self.rules.renew_before, now=now)
        return not due and describe(pair.certificate_pem).not_before <= now and may_stay(pair, request, cas)


def _covers(pattern: str, name: str) -> bool:
    """Tell whether a name in a certificate, which may begin with a wildcard, matches another."""
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".")
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name
