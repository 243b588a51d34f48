"""The settings of each domain, from the options of the command line."""

import re
import socket

from kube_runtime import Client, ClientOptions, Clock, RetryPolicy, RuntimeMetrics, Sharding
from kube_runtime.leases import LeaseSharding, LeaseTiming
from kyma_certs import Algorithm, RotationRules
from kyma_diagnostics import TracingOptions
from lifecycle_manager.catalog_sync import CatalogSettings
from lifecycle_manager.endpoints import EndpointSettings, admission_names
from lifecycle_manager.istio import IstioSettings
from lifecycle_manager.kyma import KymaSettings, Patience
from lifecycle_manager.mandatory_modules import MandatorySettings
from lifecycle_manager.module_authorization import ModuleAuthorizationSettings
from lifecycle_manager.module_config import ModuleConfigSettings, Quota
from lifecycle_manager.module_cr_status import ModuleCrStatusSettings
from lifecycle_manager.module_installation import DEPLOYER, ManifestSettings
from lifecycle_manager.oci import AllowedHosts
from lifecycle_manager.page import PageSettings
from lifecycle_manager.replicas import REPLICA_HOST
from lifecycle_manager.rollout import RolloutSettings
from lifecycle_manager.settings import GARDENER, Settings, split_address
from lifecycle_manager.skr import SkrSettings
from lifecycle_manager.skr_webhook import (
    CanaryTimes,
    CAStore,
    LeafRules,
    WatcherDeployment,
    WatcherSettings,
    WatcherTimes,
)
from lifecycle_manager.sync_resource import SyncResourceSettings
from lifecycle_manager.takeover import SelectedKymas
from lifecycle_manager.takeover.policy_file import find_policy
from lifecycle_manager_api import names


def retry_policy(options: Settings) -> RetryPolicy:
    """Return the pauses after failures of all controllers."""
    return RetryPolicy(
        base_seconds=options.failure_base_delay.total_seconds(),
        max_seconds=options.failure_max_delay.total_seconds(),
        rate=options.rate_limiter_frequency,
        burst=options.rate_limiter_burst,
    )


def kcp_options(options: Settings, metrics: RuntimeMetrics) -> ClientOptions:
    """Return the limits of requests to KCP, which are counted in `metrics`."""
    return ClientOptions(qps=options.k8s_client_qps, burst=options.k8s_client_burst, metrics=metrics)


def lease_timing(options: Settings) -> LeaseTiming:
    """Return the times of a replica's Lease."""
    return LeaseTiming(
        lease_seconds=int(options.leader_election_lease_duration.total_seconds()),
        act_seconds=options.leader_election_renew_deadline.total_seconds(),
        renew_seconds=options.leader_election_retry_period.total_seconds(),
    )


def replica_name(options: Settings) -> str:
    """Return the name of this replica: by default its host name, in the letters of a Lease's name."""
    return options.replica_name or re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-") or "replica"


def replica_address(options: Settings) -> str:
    """Return host:port at which the other replicas reach this one."""
    return options.replica_address or f"{socket.gethostname()}:{split_address(options.replica_bind_address)[1]}"


def lease_sharding(options: Settings, leases: Client) -> LeaseSharding | None:
    """Return how the Kymas are shared among replicas; None where this is the only one."""
    if not options.leader_elect:
        return None
    return LeaseSharding(
        leases,
        namespace=options.leader_election_namespace,
        group=names.LIFECYCLE_MANAGER,
        name=replica_name(options),
        succeeds=bool(options.replica_name),
        address=replica_address(options),
        timing=lease_timing(options),
    )


def selection(options: Settings, replicas: Sharding) -> Sharding:
    """Return how the Kymas are shared: with the former version too, where the fleet is split."""
    labels = dict(each.partition("=")[::2] for each in options.kyma_selector)
    return SelectedKymas(replicas, labels) if labels else replicas


def skr_settings(options: Settings) -> SkrSettings:
    """Return the limits of the access to SKRs."""
    return SkrSettings(
        qps=options.k8s_skr_client_qps,
        burst=options.k8s_skr_client_burst,
        request_timeout_seconds=options.skr_request_timeout.total_seconds(),
        max_clients=options.max_warm_skrs,
        allow_insecure_kubeconfigs=options.allow_insecure_kubeconfigs,
        max_concurrent_probes=options.max_concurrent_skr_probes,
    )


def kyma_settings(options: Settings) -> KymaSettings:
    """Return the settings of the Kyma controller."""
    return KymaSettings(
        interval_seconds=options.kyma_requeue_success_interval.total_seconds(),
        deletion_interval_seconds=options.kyma_requeue_busy_interval.total_seconds(),
        concurrency=options.max_concurrent_kyma_reconciles,
        pull_secret=options.skr_image_pull_secret,
        patience=Patience(
            unreachable=options.skr_unreachable_grace,
            deletion=options.deletion_warning_after,
            purge=options.purge_finalizer_timeout if options.enable_purge_finalizer else None,
            others_finalizers=options.remove_finalizers_of_others,
        ),
        rollout=RolloutSettings(
            max_delay=options.module_upgrade_rollout_max_delay,
            policy_file=find_policy(options.maintenance_policy),
            min_window=options.min_maintenance_window_size,
        ),
    )


def catalog_settings(options: Settings) -> CatalogSettings:
    """Return the settings of the catalog controller."""
    return CatalogSettings(
        interval_seconds=options.catalog_requeue_success_interval.total_seconds(),
        removal_interval_seconds=options.kyma_requeue_busy_interval.total_seconds(),
        purge_after=options.purge_finalizer_timeout if options.enable_purge_finalizer else None,
        concurrency=options.max_concurrent_catalog_reconciles,
    )


def mandatory_settings(options: Settings) -> MandatorySettings:
    """Return the settings of the controllers of mandatory modules."""
    return MandatorySettings(
        interval_seconds=options.mandatory_module_requeue_success_interval.total_seconds(),
        installation_concurrency=options.max_concurrent_mandatory_modules_reconciles,
        retirement_concurrency=options.max_concurrent_mandatory_modules_deletion_reconciles,
    )


def module_authorization_settings(options: Settings) -> ModuleAuthorizationSettings:
    """Return whether the policy that keeps modules apart is required, and where it is tried."""
    return ModuleAuthorizationSettings(
        namespace=options.leader_election_namespace, is_required=not options.allow_unprotected_modules
    )


def module_config_settings(options: Settings) -> ModuleConfigSettings:
    """Return the settings of the ModuleConfig controller."""
    return ModuleConfigSettings(
        interval_seconds=options.module_config_requeue_success_interval.total_seconds(),
        concurrency=options.max_concurrent_module_config_reconciles,
        quota=Quota(options.max_module_crs, options.max_module_crs_bytes),
    )


def module_cr_status_settings(options: Settings) -> ModuleCrStatusSettings:
    """Return the settings of the controller of the status of Module CRs."""
    return ModuleCrStatusSettings(concurrency=options.max_concurrent_module_config_reconciles)


def manifest_settings(options: Settings) -> ManifestSettings:
    """Return the settings of the Manifest controller."""
    return ManifestSettings(
        interval_seconds=options.manifest_requeue_success_interval.total_seconds(),
        busy_seconds=options.manifest_requeue_busy_interval.total_seconds(),
        concurrency=options.max_concurrent_manifest_reconciles,
        namespace=options.sync_namespace,
        pull_secret=options.skr_image_pull_secret,
        restricted=options.default_module_policy == "restricted",
        injects_data=DEPLOYER in options.restricted_default_modules,
    )


def sync_resource_settings(options: Settings) -> SyncResourceSettings:
    """Return the settings of the SyncResource controller."""
    return SyncResourceSettings(
        interval_seconds=options.sync_resource_requeue_success_interval.total_seconds(),
        pull_secret=options.skr_image_pull_secret,
        concurrency=options.max_concurrent_sync_resource_reconciles,
    )


def watcher_settings(options: Settings) -> WatcherSettings:
    """Return the settings of the Watcher controller."""
    return WatcherSettings(
        deployment=WatcherDeployment(
            image=options.skr_watcher_image,
            kcp_address=options.event_address,
            memory_limit=options.skr_webhook_memory_limits,
            cpu_limit=options.skr_webhook_cpu_limits,
            replicas=options.skr_webhook_replicas,
            pull_secret=options.skr_image_pull_secret,
            otlp_endpoint=options.skr_watcher_otlp_endpoint,
            trace_sampling_ratio=options.trace_sampling_ratio,
        ),
        times=WatcherTimes(
            interval=options.watcher_requeue_success_interval.total_seconds(),
            silence=options.watcher_silence.total_seconds(),
            canary=CanaryTimes(
                options.watcher_canary_interval.total_seconds(), options.watcher_canary_patience.total_seconds()
            ),
        ),
        certificates=leaf_rules(options),
        cert_management=options.cert_management,
        issuer=options.self_signed_cert_issuer_name,
        issuer_namespace=options.self_signed_cert_issuer_namespace or names.KCP_NAMESPACE,
        renewal_alarm=options.self_signed_cert_renew_before - options.self_signed_cert_renew_buffer,
        repair_on_events=options.repair_on_events,
        concurrency=options.max_concurrent_watcher_reconciles,
    )


def istio_settings(options: Settings) -> IstioSettings | None:
    """Return the settings of the routes of Watcher CRs; None where there are none."""
    if not options.watcher_virtual_services:
        return None
    return IstioSettings(
        namespace=options.istio_namespace,
        gateway_name=options.istio_gateway_name,
        gateway_namespace=options.istio_gateway_namespace,
        event_hosts=event_hosts(options),
        expiry_window=options.istio_gateway_server_cert_expiry_window,
    )


def ca_store(options: Settings, kcp: Client, clock: Clock) -> CAStore:
    """Return the store of the CAs."""
    return CAStore(
        kcp,
        clock,
        lifetime=options.self_signed_ca_duration,
        former_namespace=former_namespace(options),
    )


def former_namespace(options: Settings) -> str:
    """Return where the CA of a former version is. With Gardener its Issuer may be in another namespace."""
    given = options.self_signed_cert_issuer_namespace
    return options.istio_namespace if given and options.cert_management == GARDENER else given


def rotation_rules(options: Settings) -> RotationRules:
    """Return the times of a CA rotation."""
    return RotationRules(
        renew_before=options.self_signed_ca_renew_before,
        grace=options.self_signed_ca_rotation_grace,
        patience=options.self_signed_ca_rotation_patience,
    )


def leaf_rules(options: Settings) -> LeafRules:
    """Return what the Watchers' certificates contain."""
    own_names = (split_address(options.event_address)[0], *admission_names(options.webhook_service), REPLICA_HOST)
    return LeafRules(
        lifetime=options.self_signed_cert_duration,
        renew_before=options.self_signed_cert_renew_before,
        algorithm=Algorithm(options.self_signed_cert_key_algorithm),
        rsa_key_size=options.self_signed_cert_key_size,
        additional_dns_names=options.additional_dns_names,
        reserved_names=own_names,
        naming_template=options.self_signed_cert_naming_template,
    )


def allowed_hosts(options: Settings) -> AllowedHosts:
    """Return the hosts that modules may come from."""
    return AllowedHosts.of(options.allowed_source_hosts)


def component_base(options: Settings) -> str:
    """Return where component descriptors are looked up: a registry with a path, "" for nowhere."""
    host, path = options.oci_registry_host.rstrip("/"), options.modules_repository_subpath.strip("/")
    return "/".join(filter(None, (host, path))) if host else ""


def endpoint_settings(options: Settings) -> EndpointSettings:
    """Return where this replica listens."""
    return EndpointSettings(
        events=split_address(options.kyma_skr_listener_bind_address),
        event_hosts=event_hosts(options),
        max_event_connections=options.max_event_connections,
        accept_unsigned_events=options.accept_unsigned_events,
        trusted_proxies=options.trusted_proxy_cidrs,
        replicas=split_address(options.replica_bind_address),
        enable_webhooks=options.enable_webhooks,
        admission=split_address(options.webhook_bind_address),
        webhook_service=options.webhook_service,
        webhook_client_ca=options.webhook_client_ca,
    )


def event_hosts(options: Settings) -> tuple[str, ...]:
    """Return the names by which Watchers connect."""
    return tuple(dict.fromkeys((split_address(options.event_address)[0], *options.additional_dns_names)))


def page_settings(options: Settings) -> PageSettings:
    """Return where the fleet page is served, if it is, and when versions change."""
    address = split_address(options.ui_bind_address) if options.ui_bind_address else None
    return PageSettings(address=address, rollout=kyma_settings(options).rollout)


def tracing_options(options: Settings) -> TracingOptions:
    """Return where traces are sent, and which."""
    return TracingOptions(
        names.LIFECYCLE_MANAGER, options.otlp_endpoint, options.trace_sampling_ratio, instance=options.replica_name
    )
