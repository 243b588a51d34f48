"""The options of the Lifecycle Manager: flags over environment over defaults, in one place, validated at start.

Names are upstream Kyma's where they mean the same, so that existing Deployments carry over. Each option is also read
from the environment, as `KLM_` and its name in capitals.
"""

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, IPvAnyNetwork, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from kyma_diagnostics.tracing import endpoint_of
from lifecycle_manager.durations import Duration
from lifecycle_manager.oci import AllowedHosts
from lifecycle_manager_api import names


def _host_and_port(address: str) -> str:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"invalid address {address!r}: expected host:port, such as 10.0.0.1:8082 or :8082")
    return f"{host}:{port}"


def _host_and_port_of_replica(address: str) -> str:
    if address and not address.rpartition(":")[0]:
        raise ValueError(f"invalid address {address!r}: expected a host, such as 10.0.0.1:8443")
    return _host_and_port(address) if address else ""


def _hosts(texts: tuple[str, ...]) -> tuple[str, ...]:
    AllowedHosts.of(texts)
    return texts


def _labels(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not re.fullmatch(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9._-]{1,63}=[A-Za-z0-9._-]{0,63}", text):
            raise ValueError(f"invalid label {text!r}: expected key=value")
    return texts


def _namespace(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise ValueError(f"invalid namespace {name!r}: expected lower case letters, digits and '-', at most 63")
    return name


def _loopback_address(address: str) -> str:
    host = _host_and_port(address).rpartition(":")[0] if address else "127.0.0.1"
    if not ip_address(host.strip("[]")).is_loopback:  # an invalid address raises ValueError, too
        raise ValueError(f"invalid address {address!r}: expected one of this machine, such as 127.0.0.1:8090")
    return address


def _optional_namespace(name: str) -> str:
    return _namespace(name) if name else ""


BindAddress = Annotated[str, AfterValidator(_host_and_port)]
GARDENER = "cert.gardener.cloud/v1alpha1"


class Settings(BaseSettings):
    """The options of `klm run`."""

    model_config = SettingsConfigDict(
        env_prefix="KLM_",
        frozen=True,
        extra="forbid",
        cli_kebab_case=True,
        cli_prog_name="klm run",
        cli_hide_none_type=True,
        cli_implicit_flags=True,
    )

    kubeconfig: Path | None = Field(None, description="kubeconfig of KCP; default: the identity of the Pod")
    kyma_skr_listener_bind_address: BindAddress = Field(":8082", description="listen address for events of Watchers")
    metrics_bind_address: BindAddress = Field(":8080", description="listen address for /metrics")
    kyma_metrics: bool = Field(
        False, description="also the metrics of upstream with several series for each Kyma and each of its modules"
    )
    health_probe_bind_address: BindAddress = Field(":8081", description="listen address for /healthz and /readyz")
    max_event_connections: int = Field(
        15_000, ge=1, description="maximum of open event connections; an idle Watcher keeps one"
    )
    event_address: BindAddress = Field(
        "localhost:8082", description="host:port at which Watchers reach the event endpoint"
    )
    ui_bind_address: Annotated[str, AfterValidator(_loopback_address)] = Field(
        "",
        description="loopback address of the fleet page, such as 127.0.0.1:8090, for kubectl port-forward or a proxy "
        "in the same Pod. Default: it is not served",
    )
    kyma_selector: Annotated[tuple[str, ...], AfterValidator(_labels)] = Field(
        (),
        description="labels, as key=value, of the Kymas that are managed while the Lifecycle Manager in Go manages the "
        "others of this control plane and is kept from these (docs/migration.md); its Lease is not waited for. "
        "Default: all Kymas",
    )
    enable_webhooks: bool = Field(False, description="validate resources at admission; needs a Service")
    webhook_bind_address: BindAddress = Field(":9443", description="listen address for admission requests")
    webhook_service: str = Field("lifecycle-manager-webhook", description="Service of that address, port 443")
    webhook_client_ca: Path | None = Field(
        None,
        description="PEM file with the CA of the client certificate that the API server has for webhooks; others are "
        "refused. Default: no certificate is asked for",
    )
    leader_elect: bool = Field(
        True, description="share the Kymas with other replicas by Leases; if off, this must be the only replica"
    )
    leader_election_namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        names.KCP_LEASE_NAMESPACE,
        description="namespace of those Leases, in which nobody but Lifecycle Manager may write",
    )
    leader_election_lease_duration: Duration = Field(
        timedelta(seconds=10),
        description="how long a replica may miss renewals of its Lease before others take its Kymas over",
    )
    leader_election_renew_deadline: Duration = Field(
        timedelta(seconds=7), description="how long a replica may write after its last renewal"
    )
    leader_election_retry_period: Duration = Field(
        timedelta(milliseconds=1500), description="how often a replica renews its Lease"
    )
    replica_name: str = Field(
        "",
        pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*)?$",
        max_length=200,
        description="unique name of this replica, such as the name of its Pod; after a restart it takes its "
        "Kymas back at once",
    )
    replica_bind_address: BindAddress = Field(":8443", description="listen address for events from other replicas")
    replica_address: Annotated[str, AfterValidator(_host_and_port_of_replica)] = Field(
        "",
        description="host:port at which other replicas reach it; default: host name and port of replica-bind-address",
    )
    additional_dns_names: tuple[str, ...] = Field((), description="additional SANs of the Watchers' certificates")
    skr_watcher_image: str = Field("skr-watcher:latest", description="image of the Watcher")
    skr_webhook_memory_limits: str = Field("200Mi", description="memory limit of the Watcher")
    skr_webhook_replicas: int = Field(1, ge=1, le=10, description="replicas of the Watcher in each SKR")
    skr_webhook_cpu_limits: str = Field("0.1", description="CPU limit of the Watcher")
    skr_image_pull_secret: str = Field(
        "",
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$",
        description="Secret in kcp-system for private images: copied to kyma-system of every SKR, and named by Pods of "
        "the Watcher and of Deployments and StatefulSets of modules; default: none",
    )

    max_concurrent_kyma_reconciles: int = Field(50, ge=1, description="concurrent reconciles of Kymas")
    max_concurrent_catalog_reconciles: int = Field(
        20, ge=1, description="concurrent reconciles of module catalogs in SKRs"
    )
    max_concurrent_mandatory_modules_reconciles: int = Field(
        20, ge=1, description="concurrent reconciles of mandatory modules"
    )
    max_concurrent_mandatory_modules_deletion_reconciles: int = Field(
        2, ge=1, description="concurrent reconciles of deleted mandatory modules"
    )
    max_concurrent_skr_probes: int = Field(200, ge=1, description="concurrent probes of SKRs that do not answer")
    max_concurrent_module_config_reconciles: int = Field(50, ge=1, description="concurrent reconciles of ModuleConfigs")
    max_concurrent_sync_resource_reconciles: int = Field(50, ge=1, description="concurrent reconciles of SyncResources")
    max_concurrent_manifest_reconciles: int = Field(50, ge=1, description="concurrent reconciles of Manifests")
    max_concurrent_watcher_reconciles: int = Field(20, ge=1, description="concurrent reconciles of Watchers in SKRs")
    kyma_requeue_success_interval: Duration = Field(
        timedelta(minutes=4), description="interval at which a Kyma is reconciled without an event"
    )
    kyma_requeue_busy_interval: Duration = Field(
        timedelta(seconds=5), description="interval at which a Kyma is reconciled that is being deleted"
    )
    catalog_requeue_success_interval: Duration = Field(
        timedelta(minutes=10),
        description="interval at which the module catalog of an SKR is reconciled without an event",
    )
    mandatory_module_requeue_success_interval: Duration = Field(
        timedelta(minutes=5), description="interval at which mandatory modules are reconciled without a change"
    )
    manifest_requeue_success_interval: Duration = Field(
        timedelta(minutes=10), description="interval at which the objects of a Manifest are reconciled without an event"
    )
    manifest_requeue_busy_interval: Duration = Field(
        timedelta(seconds=2),
        description="interval at which a Manifest is reconciled that is being installed or removed",
    )
    sync_namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        names.SKR_NAMESPACE,
        description="namespace in SKRs for default Module CRs and for objects of modules that name none; created if "
        "missing. The Kyma CR, the module catalog and the Watcher are always in kyma-system",
    )
    module_config_requeue_success_interval: Duration = Field(
        timedelta(minutes=4), description="interval at which Module CRs are read without an event"
    )
    max_module_crs: int = Field(
        200, ge=1, description="maximum of Module CRs of one module that are synchronized from an SKR"
    )
    max_module_crs_bytes: int = Field(
        4 * 1024 * 1024, ge=1024, description="maximum of bytes of their texts; what was synchronized before stays"
    )
    sync_resource_requeue_success_interval: Duration = Field(
        timedelta(minutes=2),
        description="interval at which the objects of a SyncResource are reconciled without an event",
    )
    repair_on_events: bool = Field(
        True,
        description="have Watchers report objects of modules that others delete or edit, so that these are repaired at "
        "once and not at the interval; a ModulePolicy can switch this off for a module",
    )
    watcher_requeue_success_interval: Duration = Field(
        timedelta(minutes=5), description="interval at which the Watcher of an SKR is reconciled"
    )
    watcher_silence: Duration = Field(
        timedelta(seconds=55), description="time without any event after which a Watcher counts as silent"
    )
    watcher_canary_interval: Duration = Field(
        timedelta(seconds=30), description="interval at which the event path of an SKR is tested by a dry-run write"
    )
    watcher_canary_patience: Duration = Field(
        timedelta(seconds=20),
        description="time without a reported test write after which the event path counts as broken",
    )
    skr_unreachable_grace: Duration = Field(
        timedelta(seconds=30),
        description="time without an answer of the SKR after which the state of its Kyma is Error",
    )
    deletion_warning_after: Duration = Field(
        timedelta(minutes=10), description="time after which the state of a Kyma is Warning whose deletion is blocked"
    )
    enable_purge_finalizer: bool = Field(
        False, description="remove finalizers of objects that modules left in an SKR whose Kyma is being deleted"
    )
    purge_finalizer_timeout: Duration = Field(
        timedelta(minutes=5), description="time after which finalizers of such objects are removed"
    )
    remove_finalizers_of_others: bool = Field(
        False,
        description="remove all finalizers, not just its own, from a Kyma that is being deleted and whose access "
        "Secret is gone, as upstream does with ENABLE_LEGACY_KYMA_DELETION; from Manifests they are always removed",
    )
    module_upgrade_rollout_max_delay: Duration = Field(
        timedelta(minutes=5), description="time over which a new version in a channel is rolled out to the fleet"
    )
    maintenance_policy: Path | None = Field(
        None,
        description="file with the maintenance policy; default: /etc/maintenance-policy/policy.json, if it exists. "
        "Without a policy no upgrade waits for a maintenance window",
    )
    min_maintenance_window_size: Duration = Field(
        timedelta(minutes=20), description="remaining time of a maintenance window that an upgrade needs to begin"
    )
    failure_base_delay: Duration = Field(timedelta(milliseconds=100), description="first delay after a failure")
    failure_max_delay: Duration = Field(timedelta(seconds=5), description="maximum delay after failures")
    rate_limiter_frequency: float = Field(30, gt=0, description="retries per second of one controller")
    rate_limiter_burst: int = Field(200, ge=1, description="burst of retries above that rate")
    cache_sync_timeout: Duration = Field(timedelta(minutes=2), description="timeout of the first lists at start")

    k8s_client_qps: float = Field(1000, gt=0, description="requests per second to KCP")
    k8s_client_burst: int = Field(2000, ge=1, description="burst of requests above that rate")
    k8s_skr_client_qps: float = Field(200, gt=0, description="requests per second to each SKR")
    k8s_skr_client_burst: int = Field(400, ge=1, description="burst of requests above that rate")
    skr_request_timeout: Duration = Field(timedelta(seconds=10), description="timeout of one request to an SKR")
    max_warm_skrs: int = Field(1000, ge=1, description="maximum of SKRs to which connections are kept open")
    allow_insecure_kubeconfigs: bool = Field(
        False, description="accept kubeconfigs with exec plugins, file paths or TLS verification switched off"
    )

    allow_unprotected_modules: bool = Field(
        False,
        description="be ready although the admission policy is not in force without which every module may write for "
        "every other (docs/trust.md)",
    )
    restricted_default_modules: tuple[str, ...] = Field(
        (),
        description="modules for those Kymas alone that the kymaSelector of their ModuleReleaseMeta matches; without a "
        "selector nobody may have them",
    )
    default_module_policy: Literal["unrestricted", "restricted"] = Field(
        "unrestricted",
        description="what Manifests of modules without a ModulePolicy may contain: everything, or what the defaults of "
        "a ModulePolicy allow, as is always the case for SyncResources",
    )

    oci_registry_host: str = Field(
        "", description="registry of the component descriptors that ModuleTemplates leave empty"
    )
    modules_repository_subpath: str = Field("", description="path of the components in that registry")
    oci_registry_cred_secret: str = Field(
        "", description="Secret in kcp-system with credentials for registries, used if a Manifest selects none"
    )
    allowed_source_hosts: Annotated[tuple[str, ...], AfterValidator(_hosts)] = Field(
        (),
        description="hosts of registries and links that modules may come from, such as registry.example.com:5000 or "
        "*.example.com, with those that they redirect to; default: any",
    )
    module_cache_dir: Path | None = Field(
        None, description="folder in which layers are cached across restarts; default: a temporary folder"
    )

    watcher_virtual_services: bool = Field(
        False,
        description="keep an Istio VirtualService for each Watcher CR, which routes its events to its serviceInfo, and "
        "the Secret klm-istio-gateway of the gateway, which terminates TLS; needs trusted-proxy-cidrs",
    )
    istio_namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        "istio-system", description="namespace of Istio, and of the gateway's Secret"
    )
    istio_gateway_name: str = Field(
        "klm-watcher", description="Gateway whose hosts the gateway's certificate has beside the event address"
    )
    istio_gateway_namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        names.KCP_NAMESPACE, description="namespace of the Gateways that Watcher CRs select"
    )
    istio_gateway_server_cert_expiry_window: Duration = Field(
        timedelta(days=14), description="time before its expiry at which a metric reports the gateway's certificate"
    )
    accept_unsigned_events: bool = Field(
        False,
        description="accept unsigned events, as the Watcher of upstream Kyma sends them, by their TLS certificate",
    )
    trusted_proxy_cidrs: tuple[IPvAnyNetwork, ...] = Field(
        (), description="addresses of TLS-terminating proxies whose X-Forwarded-Client-Cert header is trusted"
    )
    self_signed_cert_duration: Duration = Field(timedelta(days=90), description="lifetime of a Watcher's certificate")
    self_signed_cert_renew_before: Duration = Field(
        timedelta(days=60), description="time before its expiry at which a certificate is renewed"
    )
    self_signed_cert_renew_buffer: Duration = Field(
        timedelta(hours=24), description="time by which a renewal may be overdue before the metric reports it"
    )
    self_signed_cert_key_algorithm: Literal["ECDSA_P256", "ED25519", "RSA"] = Field(
        "ECDSA_P256", description="key algorithm of a Watcher's certificate; events cannot be signed with an RSA key"
    )
    self_signed_cert_key_size: int = Field(4096, ge=2048, le=8192, multiple_of=8, description="bits of an RSA key")
    cert_management: Literal["built-in", "cert-manager.io/v1", "cert.gardener.cloud/v1alpha1"] = Field(
        "built-in", description="issuer of the Watchers' certificates"
    )
    self_signed_cert_issuer_name: str = Field(
        "klm-watcher-selfsigned", description="name of the Issuer that is created for cert-manager or Gardener"
    )
    self_signed_cert_issuer_namespace: Annotated[str, AfterValidator(_optional_namespace)] = Field(
        "",
        description="namespace of the CA of a former Lifecycle Manager, which is adopted at the first start, usually "
        "istio-system; default: none is adopted. With Gardener, namespace of the Issuer, by default kcp-system; the CA "
        "is then adopted from istio-namespace",
    )
    self_signed_ca_duration: Duration = Field(timedelta(days=3650), description="lifetime of a CA")
    self_signed_ca_renew_before: Duration = Field(
        timedelta(days=365), description="time before its expiry at which a CA is replaced"
    )
    self_signed_ca_rotation_grace: Duration = Field(
        timedelta(minutes=10), description="time by which a phase of a CA rotation goes on after every SKR has it"
    )
    self_signed_ca_rotation_patience: Duration = Field(
        timedelta(days=7), description="maximum time that an unreachable SKR delays a phase of a CA rotation"
    )
    self_signed_cert_naming_template: str = Field(
        "%s-webhook-tls", pattern=r"^[^%]*%s[^%]*$", description="name of the Secret with a Kyma's Watcher certificate"
    )

    otlp_endpoint: Annotated[str, AfterValidator(endpoint_of)] = Field(
        "",
        description="URL of an OpenTelemetry collector, such as http://collector:4318, for traces of changes by "
        "OTLP/HTTP; needs the extra `tracing`. Default: no traces",
    )
    skr_watcher_otlp_endpoint: Annotated[str, AfterValidator(endpoint_of)] = Field(
        "", description="such a URL as the Watchers reach it from the SKRs. Default: Watchers send no traces"
    )
    trace_sampling_ratio: float = Field(
        0.01,
        ge=0,
        le=1,
        description="share of changes whose traces are sent; those of changes that fail or take more than a second are "
        "sent in any case",
    )
    debug_socket: Path | None = Field(
        None, description="Unix socket at which `klm debug` asks this process. Default: there is none"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="minimum level of log lines")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="json, or console with colours; auto depends on the terminal"
    )

    @model_validator(mode="after")
    def _leases_make_sense(self) -> Self:
        """Refuse times with which two replicas could write at the same time, or none for long."""
        lease = self.leader_election_lease_duration
        if not timedelta(0) < self.leader_election_retry_period < self.leader_election_renew_deadline < lease:
            raise ValueError(
                "leader-election-retry-period must be shorter than leader-election-renew-deadline, "
                "and that shorter than leader-election-lease-duration"
            )
        if lease % timedelta(seconds=1):
            raise ValueError("leader-election-lease-duration must be whole seconds, as in a Lease")
        return self

    @model_validator(mode="after")
    def _certificates_make_sense(self) -> Self:
        """Refuse lifetimes with which certificates were renewed without end, or keys that cannot sign events."""
        if self.self_signed_cert_renew_before >= self.self_signed_cert_duration:
            raise ValueError("self-signed-cert-renew-before must be shorter than self-signed-cert-duration")
        if self.self_signed_cert_duration > self.self_signed_ca_renew_before:
            raise ValueError("self-signed-ca-renew-before must be at least self-signed-cert-duration")
        if self.self_signed_ca_renew_before >= self.self_signed_ca_duration:
            raise ValueError("self-signed-ca-renew-before must be shorter than self-signed-ca-duration")
        if self.cert_management == GARDENER and self.self_signed_cert_key_algorithm == "ED25519":
            raise ValueError("Gardener makes no ED25519 keys: use another self-signed-cert-key-algorithm")
        if self.watcher_virtual_services and not self.trusted_proxy_cidrs:
            raise ValueError("watcher-virtual-services needs trusted-proxy-cidrs: the addresses of the Istio gateway")
        if self.watcher_virtual_services and self.kyma_selector:
            raise ValueError("with kyma-selector the former version routes events: drop watcher-virtual-services")
        if self.self_signed_cert_key_algorithm == "RSA" and not self.accept_unsigned_events:
            raise ValueError(
                "events cannot be signed with RSA keys: self-signed-cert-key-algorithm RSA needs accept-unsigned-events"
            )
        return self


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of a validated address; an empty host means every interface."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what `:8082` says
