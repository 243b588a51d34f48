"""The Watcher, its certificates and CAs, and the Istio gateway."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from lifecycle_manager.contract.dns_names import REPLICA_HOST, admission_names
from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import (
    Concurrency,
    EventAddress,
    EventNames,
    FipsOnly,
    Interval,
    IstioNamespace,
    PullSecret,
    TraceSamplingRatio,
    WebhookService,
)
from lifecycle_manager.options.types import Duration, Namespace, OptionalNamespace, OtlpEndpoint, Quantity, Seconds
from lifecycle_manager_api import names

if TYPE_CHECKING:
    from lifecycle_manager_api import Kyma

CertManagement = Literal["built-in", "cert-manager.io/v1", "cert.gardener.cloud/v1alpha1"]
BUILT_IN: CertManagement = "built-in"
GARDENER: CertManagement = "cert.gardener.cloud/v1alpha1"

RESEND_SECONDS = 12.0
"""By then a Watcher has sent an event again that did not arrive."""
MAX_HEARTBEAT_SECONDS = 3600.0
"""Watchers take no longer time."""


class CanaryTimes(DomainSettings):
    """How often the event path is tested, in seconds. A broken one is found in three minutes (`EventPath`: 141 s).

    Three canaries are sent before the timeout, so a lost one, or an answer that is sent again, is no fault.
    """

    interval: Seconds = Field(
        default=120.0,
        validation_alias="watcher-canary-interval",
        description="interval at which the event path of an SKR is tested by a dry-run write",
    )
    timeout: Seconds = Field(
        default=15.0,
        validation_alias="watcher-canary-timeout",
        description="time without a reported test write after which the event path counts as broken",
    )
    again: float = 5.0
    write_interval: float = 600.0


class WatcherTimes(DomainSettings):
    """Intervals of the controller, in seconds."""

    interval: Interval = 300.0
    silence: Seconds = Field(
        default=58.0,
        validation_alias="watcher-silence",
        description="time without any event after which a Watcher counts as silent",
    )
    canary: CanaryTimes = CanaryTimes()

    @property
    def heartbeat(self) -> float:
        """The time without an event after which a Watcher sends a heartbeat: there is time to send it a second time."""
        return min(max(self.silence - RESEND_SECONDS, self.silence / 2), MAX_HEARTBEAT_SECONDS)


class WatcherDeployment(DomainSettings):
    """How the Watcher runs in every SKR.

    `kcp_address` is host:port of the event endpoint; `pull_secret` the name of the image pull Secret, if there is one.
    It sends traces to `otlp_endpoint`, where one is given.
    """

    image: str = Field(
        default="skr-watcher:latest", validation_alias="skr-watcher-image", description="image of the Watcher"
    )
    kcp_address: EventAddress = "localhost:8082"
    memory_limit: Quantity = Field(
        default="200Mi", validation_alias="skr-webhook-memory-limits", description="memory limit of the Watcher"
    )
    cpu_limit: Quantity = Field(
        default="0.5",
        validation_alias="skr-webhook-cpu-limits",
        description="CPU limit of the Watcher, which needs 0.6 s of CPU to start, and 2 ms for a change: with 0.1 it "
        "starts in 6 s",
    )
    replicas: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1, validation_alias="skr-webhook-replicas", description="replicas of the Watcher in each SKR"
    )
    pull_secret: PullSecret = ""
    otlp_endpoint: OtlpEndpoint = Field(
        default="",
        validation_alias="skr-watcher-otlp-endpoint",
        description="URL of an OpenTelemetry collector, as the Watchers reach it from the SKRs. Default: Watchers "
        "send no traces",
    )
    trace_sampling_ratio: TraceSamplingRatio = 0.01
    fips_only: FipsOnly = False


class WatcherSettings(DomainSettings):
    """How Watchers run, and when the controller acts. `repair_on_events`: they report changes of modules' objects."""

    deployment: WatcherDeployment = WatcherDeployment()
    times: WatcherTimes = WatcherTimes()
    repair_on_events: bool = Field(
        default=True,
        validation_alias="repair-on-events",
        description="have Watchers report objects of modules that others delete or edit, so that these are repaired "
        "at once and not at the interval; a ModulePolicy can switch this off for a module",
    )
    concurrency: Concurrency = 20


KeyAlgorithm = Literal["ECDSA_P256", "RSA", "ED25519"]
"""The names of what `kyma_certs` knows as Algorithm."""


class LeafRules(DomainSettings):
    """What a Watcher's certificate contains.

    `reserved_names` are those of KCP: a Watcher with one of them could impersonate it.
    """

    lifetime: Duration = Field(
        default=timedelta(days=90),
        validation_alias="self-signed-cert-duration",
        description="lifetime of a Watcher's certificate",
    )
    renew_before: Duration = Field(
        default=timedelta(days=60),
        validation_alias="self-signed-cert-renew-before",
        description="time before its expiry at which a certificate is renewed",
    )
    renewal_buffer: Duration = Field(
        default=timedelta(hours=24),
        validation_alias="self-signed-cert-renew-buffer",
        description="time by which a renewal may be overdue before the metric reports it",
    )
    algorithm: KeyAlgorithm = Field(
        default="ECDSA_P256",
        validation_alias="self-signed-cert-key-algorithm",
        description="key algorithm of a Watcher's certificate; events cannot be signed with an RSA key",
    )
    rsa_key_size: int = 4096
    event_names: EventNames = EventNames()
    webhook_service: WebhookService = "lifecycle-manager-webhook"

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse certificates that would be renewed without end. Raises ValueError."""
        if self.renew_before >= self.lifetime:
            raise ValueError("self-signed-cert-renew-before must be shorter than self-signed-cert-duration")
        return self

    @property
    def reserved_names(self) -> tuple[str, ...]:
        """The names of KCP: a Watcher with one of them could impersonate it."""
        return (self.event_names.hosts[0], *admission_names(self.webhook_service), REPLICA_HOST)

    def name(self, kyma: "Kyma") -> str:
        return f"{kyma.metadata.name}-webhook-tls"


class CertificateSettings(DomainSettings):
    """The CAs, the Watchers' certificates, and who issues these.

    With `cert_management` other than BUILT_IN another program issues the certificates, by the Issuer `issuer`:
    cert-manager, or Gardener's certificate management, which may have its Issuers in another namespace.
    """

    ca_lifetime: Duration = Field(
        default=timedelta(days=3650), validation_alias="self-signed-ca-duration", description="lifetime of a CA"
    )
    ca_renew_before: Duration = Field(
        default=timedelta(days=365),
        validation_alias="self-signed-ca-renew-before",
        description="time before its expiry at which a CA is replaced",
    )
    ca_grace: Duration = Field(
        default=timedelta(minutes=10),
        validation_alias="self-signed-ca-rotation-grace",
        description="time by which a phase of a CA rotation goes on after every SKR has it",
    )
    ca_timeout: Duration = Field(
        default=timedelta(days=7),
        validation_alias="self-signed-ca-rotation-timeout",
        description="maximum time that an unreachable SKR delays a phase of a CA rotation",
    )
    leaf: LeafRules = LeafRules()
    cert_management: CertManagement = Field(
        default=BUILT_IN, validation_alias="cert-management", description="issuer of the Watchers' certificates"
    )
    issuer: str = Field(
        default="klm-watcher-selfsigned",
        validation_alias="self-signed-cert-issuer-name",
        description="name of the Issuer that is created for cert-manager or Gardener",
    )
    given_namespace: OptionalNamespace = Field(
        default="",
        validation_alias="self-signed-cert-issuer-namespace",
        description="namespace of the CA of a former Lifecycle Manager, which is adopted at the first start, usually "
        "istio-system; default: none is adopted. With Gardener, namespace of the Issuer, by default kcp-system; the "
        "CA is then adopted from istio-namespace",
    )
    istio_namespace: IstioNamespace = "istio-system"

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse a CA that is replaced without end or too late, and keys that no issuer makes. Raises ValueError."""
        if self.ca_renew_before >= self.ca_lifetime:
            raise ValueError("self-signed-ca-renew-before must be shorter than self-signed-ca-duration")
        if self.leaf.lifetime > self.ca_renew_before:
            raise ValueError("self-signed-ca-renew-before must be at least self-signed-cert-duration")
        if self.cert_management == GARDENER and self.leaf.algorithm == "ED25519":
            raise ValueError("Gardener makes no ED25519 keys: use another self-signed-cert-key-algorithm")
        return self

    @property
    def issuer_namespace(self) -> str:
        return (self.given_namespace if self.cert_management == GARDENER else "") or names.KCP_NAMESPACE

    @property
    def former_namespace(self) -> str:
        """Where the CA of a former version is, "" for nowhere."""
        is_gardener = self.given_namespace and self.cert_management == GARDENER
        return self.istio_namespace if is_gardener else self.given_namespace


class IstioSettings(DomainSettings):
    """Where Istio and its Gateways are, and by which names Watchers connect to the gateway.

    `expiry_window`: how long before its end the metric reports the gateway's certificate.
    """

    enabled: bool = Field(
        default=False,
        validation_alias="watcher-virtual-services",
        description="keep an Istio VirtualService for each Watcher CR, which routes its events to its serviceInfo, "
        "and the Secret klm-istio-gateway of the gateway, which terminates TLS; needs trusted-proxy-cidrs",
    )
    namespace: IstioNamespace = "istio-system"
    gateway_name: str = Field(
        default="klm-watcher",
        validation_alias="istio-gateway-name",
        description="Gateway whose hosts the gateway's certificate has beside the event address",
    )
    gateway_namespace: Namespace = Field(
        default=names.KCP_NAMESPACE,
        validation_alias="istio-gateway-namespace",
        description="namespace of the Gateways that Watcher CRs select",
    )
    expiry_window: timedelta = timedelta(days=14)
    event_names: EventNames = EventNames()
