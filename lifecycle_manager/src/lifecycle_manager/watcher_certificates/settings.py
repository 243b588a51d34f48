"""The settings of the CAs and of the Watchers' certificates, and the store of certificates that they ask for."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from kube_runtime import Client, Manager
from kyma_certs import Algorithm, RotationRules
from lifecycle_manager.contract.options import (
    BUILT_IN,
    GARDENER,
    CertManagement,
    Duration,
    Namespace,
    OptionalNamespace,
    istio_namespace_option,
    option,
)
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.skr import OUR_SECRETS
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation, setup_ca
from lifecycle_manager.watcher_certificates.ca_store import CAStore
from lifecycle_manager.watcher_certificates.certificates import CertificateStore, LeafRules
from lifecycle_manager.watcher_certificates.issued_certificates import IssuedCertificates, LeafStore
from lifecycle_manager.watcher_certificates.metrics import certificates_issued
from lifecycle_manager_api import names


@dataclass(frozen=True, slots=True, kw_only=True)
class CASettings:
    """The lifetime of CAs and the times of their rotation."""

    lifetime: Duration = option(timedelta(days=3650), "self-signed-ca-duration", "lifetime of a CA")
    renew_before: Duration = option(
        timedelta(days=365), "self-signed-ca-renew-before", "time before its expiry at which a CA is replaced"
    )
    grace: Duration = option(
        timedelta(minutes=10),
        "self-signed-ca-rotation-grace",
        "time by which a phase of a CA rotation goes on after every SKR has it",
    )
    timeout: Duration = option(
        timedelta(days=7),
        "self-signed-ca-rotation-timeout",
        "maximum time that an unreachable SKR delays a phase of a CA rotation",
    )

    def __post_init__(self) -> None:
        """Refuse a CA that would be replaced without end. Raises ValueError."""
        if self.renew_before >= self.lifetime:
            raise ValueError("self-signed-ca-renew-before must be shorter than self-signed-ca-duration")

    @property
    def rotation(self) -> RotationRules:
        """The times of a rotation."""
        return RotationRules(renew_before=self.renew_before, grace=self.grace, timeout=self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """The CAs, the Watchers' certificates, and who issues these.

    With `cert_management` other than BUILT_IN another program issues the certificates, by the Issuer `issuer`:
    cert-manager, or Gardener's certificate management, which may have its Issuers in another namespace.
    """

    ca: CASettings = field(default_factory=CASettings)
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
        """Refuse certificates that outlive their CA, and keys that the issuer can't make. Raises ValueError."""
        if self.leaf.lifetime > self.ca.renew_before:
            raise ValueError("self-signed-ca-renew-before must be at least self-signed-cert-duration")
        if self.cert_management == GARDENER and self.leaf.algorithm is Algorithm.ED25519:
            raise ValueError("Gardener makes no ED25519 keys: use another self-signed-cert-key-algorithm")

    @property
    def issuer_namespace(self) -> str:
        """Where the Issuer is."""
        return (self.given_namespace if self.cert_management == GARDENER else "") or names.KCP_NAMESPACE

    @property
    def former_namespace(self) -> str:
        """Where the CA of a former version is, "" for nowhere."""
        is_gardener = self.given_namespace and self.cert_management == GARDENER
        return self.istio_namespace if is_gardener else self.given_namespace


def setup(
    manager: Manager, kcp: Client, settings: CertificateSettings, issuers: Iterable[type[IssuedCertificates]]
) -> tuple[CARotation, LeafStore]:
    """Keep the CAs, and return them with the store of the Watchers' certificates that the settings ask for.

    `issuers` are the other programs that issue certificates; `kcp` is a client that is not fenced, see `setup_ca`.
    """
    store = CAStore(kcp, manager.clock, lifetime=settings.ca.lifetime, former_namespace=settings.former_namespace)
    cas = setup_ca(manager, store, settings.ca.rotation)
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS)
    count = certificates_issued(manager.registry).labels(settings.cert_management).inc
    for each in issuers:
        if each.certificates.api_version == settings.cert_management:
            issuer, namespace = settings.issuer, settings.issuer_namespace
            common = (manager.client, secrets, manager.clock, settings.leaf)
            return cas, each(*common, issuer=issuer, issuer_namespace=namespace, count=count)
    return cas, CertificateStore(manager.client, secrets, manager.clock, settings.leaf, count=count)
