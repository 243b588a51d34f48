"""Composition: the parts of the Lifecycle Manager, each declared by the `setup` of its folder.

What all of them share is the Manager's. Domains meet only in resources and in signals.
"""

import asyncio
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from kube_runtime import ALONE, Client, ClientOptions, EventRecorder, Manager, RuntimeMetrics
from kube_runtime.leases import LeaseSharding
from kube_runtime.tracing import Tracer
from kyma_diagnostics.debug_server import debug_socket
from lifecycle_manager import (
    catalog_sync,
    endpoints,
    fleet_metrics,
    istio,
    kyma,
    mandatory_modules,
    module_authorization,
    module_catalog,
    module_config,
    module_cr_status,
    module_installation,
    page,
    skr,
    skr_webhook,
    sync_resource,
    takeover,
)
from lifecycle_manager import domain_settings as of
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_installation import Logins
from lifecycle_manager.oci import Blobs, Components, ObjectStore, Registries
from lifecycle_manager.oci.downloads import Downloads
from lifecycle_manager.open_files import allow_open_files
from lifecycle_manager.pauses import keep_pauses_short
from lifecycle_manager.settings import Settings, split_address
from lifecycle_manager.telemetry import ChangeLatency, fips_mode, requeue_counter
from lifecycle_manager_api import names

log = structlog.get_logger("lifecycle_manager")


async def run(settings: Settings, tracer: Tracer | None = None) -> None:
    """Run the Lifecycle Manager until SIGTERM or SIGINT; reconciles under way are finished first."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    log.info("starting", **settings.model_dump(mode="json"))
    allow_open_files(settings)
    keep_pauses_short()
    metrics = RuntimeMetrics()
    async with (
        await Client.from_environment(settings.kubeconfig, options=of.kcp_options(settings, metrics)) as kcp,
        # Leases are renewed by a client of their own: no other request may delay that.
        await Client.from_environment(settings.kubeconfig, options=ClientOptions(qps=0, metrics=metrics)) as leases,
        lifecycle_manager(settings, kcp, of.lease_sharding(settings, leases), metrics, tracer) as manager,
        debug_socket(settings.debug_socket, {"queues": manager.queue_report}),
    ):
        await manager.run(stopping)
    log.info("stopped")


@asynccontextmanager
async def lifecycle_manager(
    settings: Settings,
    kcp: Client,
    sharding: LeaseSharding | None = None,
    metrics: RuntimeMetrics | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[Manager]:
    """Compose a Lifecycle Manager that is ready to run. `metrics` are those that the clients of KCP count into."""
    registry = CollectorRegistry()
    manager = Manager(
        kcp,
        name=names.LIFECYCLE_MANAGER,
        sharding=of.selection(settings, sharding or ALONE),
        retry=of.retry_policy(settings),
        metrics=metrics,
        registry=registry,
        namespace=names.KCP_NAMESPACE,
        events=EventRecorder(kcp, controller=names.LIFECYCLE_MANAGER, instance=socket.gethostname()),
        on_result=requeue_counter(registry),
        probes=map(split_address, (settings.health_probe_bind_address, settings.metrics_bind_address)),
        sync_timeout_seconds=settings.cache_sync_timeout.total_seconds(),
        tracer=tracer,
        trace_annotation=names.TRACEPARENT,
    )
    connections = skr.connections_of(manager, of.skr_settings(settings))
    registries = Registries(allowed=of.allowed_hosts(settings))
    async with AsyncExitStack() as stack:
        for each in (registries, connections):
            stack.push_async_callback(each.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klm-")))
        _set_up(manager, settings, kcp, connections, registries=registries, folder=folder)
        yield manager


def _set_up(
    manager: Manager,
    options: Settings,
    kcp: Client,
    connections: skr.Connections,
    *,
    registries: Registries,
    folder: Path,
) -> None:
    """Declare every controller and server. To add a controller, add its folder, and its `setup` here."""
    fips_mode(manager.registry)
    latency = ChangeLatency(manager.registry, manager.clock)
    downloads = Downloads(allowed=of.allowed_hosts(options))
    kinds = ModuleKinds(downloads.text, options.sync_namespace)
    logins = Logins(kcp, options.oci_registry_cred_secret)
    store = ObjectStore(registries, downloads.text, Blobs(options.module_cache_dir or folder / "layers"))
    components = Components(registries, logins.default_login, of.component_base(options))

    takeover.setup(manager, kcp)
    skr.setup(manager, connections, of.skr_settings(options))
    offers = module_catalog.setup(manager, components.descriptor, restricted=options.restricted_default_modules)
    fleet_metrics.setup(manager, offers, each_kyma=options.kyma_metrics)
    cas = skr_webhook.setup_ca(manager, of.ca_store(options, kcp, manager.clock), of.rotation_rules(options))
    kyma.setup(manager, connections, offers=offers, settings=of.kyma_settings(options))
    catalog_sync.setup(manager, connections, offers, of.catalog_settings(options))
    mandatory_modules.setup(manager, offers, of.mandatory_settings(options))
    module_installation.setup(manager, connections, offers, store, logins, of.manifest_settings(options))
    module_config.setup(manager, connections, kinds=kinds, latency=latency, settings=of.module_config_settings(options))
    module_cr_status.setup(manager, connections, of.module_cr_status_settings(options))
    sync_resource.setup(manager, connections, latency, of.sync_resource_settings(options))
    skr_webhook.setup(manager, connections, kinds, cas=cas, settings=of.watcher_settings(options))
    skr_webhook.setup_status(manager, are_routed=options.watcher_virtual_services)
    istio.setup(manager, lambda: cas.current, of.istio_settings(options))
    module_authorization.setup(manager, kcp, of.module_authorization_settings(options))
    listens, checks = of.endpoint_settings(options), endpoints.validators(manager, offers)
    endpoints.setup(manager, kcp, folder, cas=cas, validators=checks, latency=latency, settings=listens)
    page.setup(manager, kcp, offers, of.page_settings(options))
    manager.serves(lambda: endpoints.report_ready(options.event_address), name="readiness")
