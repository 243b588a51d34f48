"""The options of the Lifecycle Manager: flags over environment over defaults, in one place, validated at start.

Names are upstream Kyma's where they mean the same, so that existing Deployments carry over. Each option is also read
from the environment, as `KLM_` and its name in capitals.
"""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, IPvAnyNetwork, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lifecycle_manager.durations import Duration
from lifecycle_manager.object_set.policy import parse_allowances
from lifecycle_manager_api import names


def _host_and_port(address: str) -> str:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address; write it like 10.0.0.1:8082 or :8082")
    return f"{host}:{port}"


def _host_and_port_of_replica(address: str) -> str:
    if address and not address.rpartition(":")[0]:
        raise ValueError(f"{address!r} names no host; write it like 10.0.0.1:8443")
    return _host_and_port(address) if address else ""


def _allowances(texts: tuple[str, ...]) -> tuple[str, ...]:
    parse_allowances(texts)
    return texts


def _namespace(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise ValueError(f"{name!r} is no name of a namespace: lower case letters, digits and '-', 63 at most")
    return name


BindAddress = Annotated[str, AfterValidator(_host_and_port)]


class Settings(BaseSettings):
    """What `klm run` can be told."""

    model_config = SettingsConfigDict(
        env_prefix="KLM_",
        frozen=True,
        extra="forbid",
        cli_kebab_case=True,
        cli_prog_name="klm run",
        cli_hide_none_type=True,
        cli_implicit_flags=True,
    )

    kubeconfig: Path | None = Field(
        None, description="kubeconfig of the control plane; in a cluster the Pod's own identity is used"
    )
    kyma_skr_listener_bind_address: BindAddress = Field(":8082", description="where Watchers send their events")
    metrics_bind_address: BindAddress = Field(":8080", description="where Prometheus finds /metrics")
    health_probe_bind_address: BindAddress = Field(":8081", description="where probes find /healthz and /readyz")
    max_event_connections: int = Field(15_000, ge=1, description="connections at once; a quiet Watcher keeps one")
    event_address: BindAddress = Field(
        "localhost:8082", description="host:port under which Watchers reach the event endpoint"
    )
    enable_webhooks: bool = Field(
        False, description="have the API server ask before it stores what can be validated; needs a Service"
    )
    webhook_bind_address: BindAddress = Field(":9443", description="where the API server asks")
    webhook_service: str = Field("lifecycle-manager-webhook", description="Service in front of that address, port 443")
    leader_elect: bool = Field(
        True, description="share the Kymas with other replicas, by Leases; without, this has to be the only replica"
    )
    leader_election_lease_duration: Duration = Field(
        timedelta(seconds=10), description="after how long a replica that does not renew its Lease counts as gone"
    )
    leader_election_renew_deadline: Duration = Field(
        timedelta(seconds=7), description="after how long without a renewal a replica stops acting by itself"
    )
    leader_election_retry_period: Duration = Field(
        timedelta(milliseconds=1500), description="how often a replica renews its Lease"
    )
    replica_name: str = Field(
        "",
        pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*)?$",
        max_length=200,
        description="this replica's own name, which another process only has after this one ended for certain, as the "
        "name of a Pod; then what a process of that name looked after needs no time to run out",
    )
    replica_bind_address: BindAddress = Field(":8443", description="where other replicas hand over events")
    replica_address: Annotated[str, AfterValidator(_host_and_port_of_replica)] = Field(
        "", description="host:port under which they reach that; the host's name and the port of it where empty"
    )
    additional_dns_names: tuple[str, ...] = Field((), description="more names in the Watchers' certificates")
    skr_watcher_image: str = Field("skr-watcher:latest", description="image of the Watcher in the clusters")
    skr_webhook_memory_limits: str = Field("200Mi", description="memory limit of the Watcher")
    skr_webhook_replicas: int = Field(1, ge=1, le=10, description="Watchers side by side in each cluster")
    skr_webhook_cpu_limits: str = Field("0.1", description="CPU limit of the Watcher")

    max_concurrent_kyma_reconciles: int = Field(50, ge=1, description="Kymas handled at once")
    max_concurrent_catalog_reconciles: int = Field(20, ge=1, description="clusters' module catalogs handled at once")
    max_concurrent_mandatory_modules_reconciles: int = Field(
        20, ge=1, description="Kymas given mandatory modules at once"
    )
    max_concurrent_mandatory_modules_deletion_reconciles: int = Field(
        2, ge=1, description="releases of mandatory modules held or let go at once"
    )
    max_concurrent_skr_probes: int = Field(200, ge=1, description="silent clusters asked for a sign of life at once")
    max_concurrent_module_config_reconciles: int = Field(50, ge=1, description="module configurations at once")
    max_concurrent_sync_resource_reconciles: int = Field(50, ge=1, description="SyncResources at once")
    max_concurrent_manifest_reconciles: int = Field(50, ge=1, description="modules installed or removed at once")
    max_concurrent_watcher_reconciles: int = Field(20, ge=1, description="clusters' Watchers set up at once")
    kyma_requeue_success_interval: Duration = Field(
        timedelta(minutes=4), description="how often a Kyma is looked at without an event"
    )
    kyma_requeue_busy_interval: Duration = Field(
        timedelta(seconds=5), description="how often a Kyma is looked at that is being deleted"
    )
    catalog_requeue_success_interval: Duration = Field(
        timedelta(minutes=10), description="how often a cluster's module catalog is looked at without an event"
    )
    mandatory_module_requeue_success_interval: Duration = Field(
        timedelta(minutes=5), description="how often a Kyma's mandatory modules are looked at without a change"
    )
    manifest_requeue_success_interval: Duration = Field(
        timedelta(minutes=10), description="how often a module's objects are looked at without an event"
    )
    manifest_requeue_busy_interval: Duration = Field(
        timedelta(seconds=2), description="how often a module is looked at that is being installed or removed"
    )
    sync_namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        names.SKR_NAMESPACE,
        description="namespace in the clusters for default Module CRs and modules' objects that name none; made where "
        "it is missing. The Kyma CR, the module catalog and the Watcher are in kyma-system whatever it says",
    )
    module_config_requeue_success_interval: Duration = Field(
        timedelta(minutes=4), description="how often Module CRs are read without an event"
    )
    sync_resource_requeue_success_interval: Duration = Field(
        timedelta(minutes=2), description="how often a SyncResource's objects are looked at without an event"
    )
    watcher_requeue_success_interval: Duration = Field(
        timedelta(minutes=5), description="how often a cluster's Watcher is looked at"
    )
    watcher_silence: Duration = Field(
        timedelta(seconds=55), description="after how long without any event a cluster's Watcher counts as silent"
    )
    watcher_canary_interval: Duration = Field(
        timedelta(seconds=30), description="how often the way of events is tried, by a dry run in the cluster"
    )
    watcher_canary_patience: Duration = Field(
        timedelta(seconds=20), description="how long trials may stay without an answer before the way counts as broken"
    )
    skr_unreachable_grace: Duration = Field(
        timedelta(seconds=30), description="how long a cluster may give no answer before its Kyma is an Error"
    )
    deletion_warning_after: Duration = Field(
        timedelta(minutes=10), description="after how long a Kyma that can't be deleted is a Warning"
    )
    enable_purge_finalizer: bool = Field(
        False, description="take finalizers off what modules left behind in a cluster whose Kyma is being deleted"
    )
    purge_finalizer_timeout: Duration = Field(
        timedelta(minutes=5), description="how long a deletion may take before finalizers are taken off"
    )
    module_upgrade_rollout_max_delay: Duration = Field(
        timedelta(minutes=5), description="over how long a new version in a channel is spread over the fleet"
    )
    maintenance_policy: Path | None = Field(
        None, description="file with the maintenance windows; without, no upgrade waits for one"
    )
    min_maintenance_window_size: Duration = Field(
        timedelta(minutes=20), description="how long a maintenance window has to be open still for an upgrade to begin"
    )
    failure_base_delay: Duration = Field(timedelta(milliseconds=100), description="first wait after a failure")
    failure_max_delay: Duration = Field(timedelta(seconds=5), description="longest wait after failures")
    rate_limiter_frequency: float = Field(30, gt=0, description="retries a second, all keys of a controller together")
    rate_limiter_burst: int = Field(200, ge=1, description="retries at once above that rate")
    cache_sync_timeout: Duration = Field(timedelta(minutes=2), description="longest wait for the first lists")

    k8s_client_qps: float = Field(1000, gt=0, description="requests a second to the control plane")
    k8s_client_burst: int = Field(2000, ge=1, description="requests at once above that rate")
    k8s_skr_client_qps: float = Field(200, gt=0, description="requests a second to each cluster")
    k8s_skr_client_burst: int = Field(400, ge=1, description="requests at once above that rate")
    skr_request_timeout: Duration = Field(timedelta(seconds=10), description="longest wait for one answer of a cluster")
    max_warm_skrs: int = Field(1000, ge=1, description="clusters to which connections are kept open")
    allow_insecure_kubeconfigs: bool = Field(
        False, description="accept kubeconfigs with exec plugins, file paths or TLS verification switched off"
    )

    sync_resource_allow: Annotated[tuple[str, ...], AfterValidator(_allowances)] = Field(
        (),
        description="what a module may have in clusters beyond its own objects, as MODULE=ALLOWANCE: "
        "cluster-rbac, admission or system-namespaces",
    )

    oci_registry_host: str = Field(
        "", description="registry in which component descriptors are looked up that ModuleTemplates leave out"
    )
    modules_repository_subpath: str = Field("", description="path of the modules' components in that registry")
    oci_registry_cred_secret: str = Field(
        "", description="Secret in kcp-system with the credentials for registries, where a Manifest selects none"
    )
    module_cache_dir: Path | None = Field(
        None, description="folder that keeps modules' layers over a restart; without, one that ends with the process"
    )

    accept_unsigned_events: bool = Field(
        False,
        description="take events without a signature, as upstream's Watcher sends them, by the certificate in TLS",
    )
    trusted_proxy_cidrs: tuple[IPvAnyNetwork, ...] = Field(
        (), description="addresses of proxies that end TLS and are believed in X-Forwarded-Client-Cert"
    )
    self_signed_cert_duration: Duration = Field(timedelta(days=90), description="life of a Watcher's certificate")
    self_signed_cert_renew_before: Duration = Field(
        timedelta(days=60), description="how long before its end a certificate is renewed"
    )
    self_signed_cert_renew_buffer: Duration = Field(
        timedelta(hours=24), description="how long a renewal may be overdue before the metric says so"
    )
    self_signed_cert_key_algorithm: Literal["ECDSA_P256", "ED25519", "RSA"] = Field(
        "ECDSA_P256", description="kind of key in a Watcher's certificate; with an RSA key events can't be signed"
    )
    self_signed_cert_key_size: int = Field(
        4096, ge=2048, le=8192, multiple_of=8, description="bits of an RSA key; the other kinds have one size"
    )
    cert_management: Literal["built-in", "cert-manager.io/v1"] = Field(
        "built-in", description="who issues the Watchers' certificates"
    )
    self_signed_cert_issuer_name: str = Field(
        "klm-watcher-selfsigned", description="name of the Issuer that is made for cert-manager"
    )
    self_signed_ca_duration: Duration = Field(timedelta(days=3650), description="life of an authority")
    self_signed_ca_renew_before: Duration = Field(
        timedelta(days=365), description="how long before its end an authority is replaced"
    )
    self_signed_ca_rotation_grace: Duration = Field(
        timedelta(minutes=10), description="how long a phase of that goes on after every cluster has it"
    )
    self_signed_ca_rotation_patience: Duration = Field(
        timedelta(days=7), description="how long a cluster that can't be reached holds a phase of that up"
    )
    self_signed_cert_naming_template: str = Field(
        "%s-webhook-tls", pattern=r"^[^%]*%s[^%]*$", description="name of the certificate's Secret for a Kyma"
    )

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="least level to log")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="JSON, or colours for people; auto decides by the terminal"
    )

    @model_validator(mode="after")
    def _leases_make_sense(self) -> Self:
        """Refuse times by which two replicas could act at once, or none for long."""
        lease = self.leader_election_lease_duration
        if not timedelta(0) < self.leader_election_retry_period < self.leader_election_renew_deadline < lease:
            raise ValueError(
                "leader-election-retry-period has to be shorter than leader-election-renew-deadline, "
                "and that shorter than leader-election-lease-duration"
            )
        if lease % timedelta(seconds=1):
            raise ValueError("leader-election-lease-duration has to be whole seconds, as a Lease holds them")
        return self

    @model_validator(mode="after")
    def _certificates_make_sense(self) -> Self:
        """Refuse what would have certificates issued without end, or Watchers that could not speak to us."""
        if self.self_signed_cert_renew_before >= self.self_signed_cert_duration:
            raise ValueError("self-signed-cert-renew-before has to be shorter than self-signed-cert-duration")
        if self.self_signed_cert_duration > self.self_signed_ca_renew_before:
            raise ValueError("self-signed-ca-renew-before has to be at least self-signed-cert-duration")
        if self.self_signed_ca_renew_before >= self.self_signed_ca_duration:
            raise ValueError("self-signed-ca-renew-before has to be shorter than self-signed-ca-duration")
        if self.self_signed_cert_key_algorithm == "RSA" and not self.accept_unsigned_events:
            raise ValueError(
                "events can't be signed by RSA keys: self-signed-cert-key-algorithm RSA needs accept-unsigned-events"
            )
        return self


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of a validated address; an empty host means every interface."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what `:8082` says
