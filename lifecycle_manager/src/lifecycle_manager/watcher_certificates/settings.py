"""The options of the CAs and of the Watchers' certificates."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from lifecycle_manager.contract.options import (
    BUILT_IN,
    GARDENER,
    REPLICA_HOST,
    CertManagement,
    Duration,
    EventNames,
    Namespace,
    OptionalNamespace,
    admission_names,
    istio_namespace_option,
    option,
    webhook_service_option,
)
from lifecycle_manager_api import names

if TYPE_CHECKING:
    from lifecycle_manager_api import Kyma

KeyAlgorithm = Literal["ECDSA_P256", "RSA", "ED25519"]
"""The names of what `kyma_certs` knows as Algorithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRules:
    """What a Watcher's certificate contains.

    `reserved_names` are those of KCP: a Watcher with one of them could impersonate it.
    """

    lifetime: Duration = option(timedelta(days=90), "self-signed-cert-duration", "lifetime of a Watcher's certificate")
    renew_before: Duration = option(
        timedelta(days=60),
        "self-signed-cert-renew-before",
        "time before its expiry at which a certificate is renewed",
    )
    renewal_buffer: Duration = option(
        timedelta(hours=24),
        "self-signed-cert-renew-buffer",
        "time by which a renewal may be overdue before the metric reports it",
    )
    algorithm: KeyAlgorithm = option(
        "ECDSA_P256",
        "self-signed-cert-key-algorithm",
        "key algorithm of a Watcher's certificate; events cannot be signed with an RSA key",
    )
    rsa_key_size: int = 4096
    event_names: EventNames = field(default_factory=EventNames)
    webhook_service: str = webhook_service_option()

    def __post_init__(self) -> None:
        """Refuse certificates that would be renewed without end. Raises ValueError."""
        if self.renew_before >= self.lifetime:
            raise ValueError("self-signed-cert-renew-before must be shorter than self-signed-cert-duration")

    @property
    def reserved_names(self) -> tuple[str, ...]:
        """The names of KCP: a Watcher with one of them could impersonate it."""
        return (self.event_names.hosts[0], *admission_names(self.webhook_service), REPLICA_HOST)

    def name(self, kyma: "Kyma") -> str:
        return f"{kyma.metadata.name}-webhook-tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """The CAs, the Watchers' certificates, and who issues these.

    With `cert_management` other than BUILT_IN another program issues the certificates, by the Issuer `issuer`:
    cert-manager, or Gardener's certificate management, which may have its Issuers in another namespace.
    """

    ca_lifetime: Duration = option(timedelta(days=3650), "self-signed-ca-duration", "lifetime of a CA")
    ca_renew_before: Duration = option(
        timedelta(days=365), "self-signed-ca-renew-before", "time before its expiry at which a CA is replaced"
    )
    ca_grace: Duration = option(
        timedelta(minutes=10),
        "self-signed-ca-rotation-grace",
        "time by which a phase of a CA rotation goes on after every SKR has it",
    )
    ca_timeout: Duration = option(
        timedelta(days=7),
        "self-signed-ca-rotation-timeout",
        "maximum time that an unreachable SKR delays a phase of a CA rotation",
    )
    leaf: LeafRules = field(default_factory=LeafRules)
    cert_management: CertManagement = option(BUILT_IN, "cert-management", "issuer of the Watchers' certificates")
    issuer: str = option(
        "klm-watcher-selfsigned",
        "self-signed-cert-issuer-name",
        "name of the Issuer that is created for cert-manager or Gardener",
    )
    given_namespace: OptionalNamespace = option(
        "",
        "self-signed-cert-issuer-namespace",
        "namespace of the CA of a former Lifecycle Manager, which is adopted at the first start, usually istio-system; "
        "default: none is adopted. With Gardener, namespace of the Issuer, by default kcp-system; the CA is then "
        "adopted from istio-namespace",
    )
    istio_namespace: Namespace = istio_namespace_option()

    def __post_init__(self) -> None:
        """Refuse a CA that is replaced without end or too late, and keys that no issuer makes. Raises ValueError."""
        if self.ca_renew_before >= self.ca_lifetime:
            raise ValueError("self-signed-ca-renew-before must be shorter than self-signed-ca-duration")
        if self.leaf.lifetime > self.ca_renew_before:
            raise ValueError("self-signed-ca-renew-before must be at least self-signed-cert-duration")
        if self.cert_management == GARDENER and self.leaf.algorithm == "ED25519":
            raise ValueError("Gardener makes no ED25519 keys: use another self-signed-cert-key-algorithm")

    @property
    def issuer_namespace(self) -> str:
        return (self.given_namespace if self.cert_management == GARDENER else "") or names.KCP_NAMESPACE

    @property
    def former_namespace(self) -> str:
        """Where the CA of a former version is, "" for nowhere."""
        is_gardener = self.given_namespace and self.cert_management == GARDENER
        return self.istio_namespace if is_gardener else self.given_namespace
