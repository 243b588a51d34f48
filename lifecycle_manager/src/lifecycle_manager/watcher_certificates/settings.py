"""The settings of the CAs and of the Watchers' certificates, and the store of certificates that they ask for."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client import Counter

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
from lifecycle_manager.watcher_certificates.ca_store import Adopts, CAStore, adopts_nothing
from lifecycle_manager.watcher_certificates.certificates import CertificateStore, LeafRules, LeafStore
from lifecycle_manager.watcher_certificates.issued_certificates import IssuedCertificates
from lifecycle_manager_api import names


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
        if self.cert_management == GARDENER and self.leaf.algorithm is Algorithm.ED25519:
            raise ValueError("Gardener makes no ED25519 keys: use another self-signed-cert-key-algorithm")

    @property
    def issuer_namespace(self) -> str:
        return (self.given_namespace if self.cert_management == GARDENER else "") or names.KCP_NAMESPACE

    @property
    def former_namespace(self) -> str:
        """Where the CA of a former version is, "" for nowhere."""
        is_gardener = self.given_namespace and self.cert_management == GARDENER
        return self.istio_namespace if is_gardener else self.given_namespace


def setup(
    manager: Manager,
    kcp: Client,
    settings: CertificateSettings,
    *,
    issuers: Iterable[type[IssuedCertificates]] = (),
    adopts: Adopts = adopts_nothing,
) -> tuple[CARotation, LeafStore]:
    """Keep the CAs, and return them with the store of the Watchers' certificates that the settings ask for.

    `issuers` are the other programs that issue certificates; `adopts` finds the CAs of a former version in a
    namespace; `kcp` is a client that is not fenced, see `setup_ca`.
    """
    store = CAStore(
        kcp,
        manager.clock,
        lifetime=settings.ca_lifetime,
        adopts=adopts,
        former_namespace=settings.former_namespace,
    )
    rules = RotationRules(renew_before=settings.ca_renew_before, grace=settings.ca_grace, timeout=settings.ca_timeout)
    cas = setup_ca(manager, store, rules)
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS)
    issued = Counter(
        "lifecycle_mgr_watcher_certificates_issued",
        "Watchers' certificates that were issued; with another issuer, those whose renewal was requested.",
        ["issuer"],
        registry=manager.registry,
    )
    common = (manager.client, secrets, manager.clock, settings.leaf, issued.labels(settings.cert_management).inc)
    for each in issuers:
        if each.certificates.api_version == settings.cert_management:
            return cas, each(*common, issuer=settings.issuer, issuer_namespace=settings.issuer_namespace)
    return cas, CertificateStore(*common)
