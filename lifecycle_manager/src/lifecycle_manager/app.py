"""Composition: each part is declared by the `setup` of its folder. Domains meet only in resources and in signals."""

import asyncio
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from kube_runtime import ALONE, SYSTEM_CLOCK, Client, ClientOptions, Clock, EventRecorder, Manager, RuntimeMetrics
from kube_runtime.client.proxies import proxy_of_environment
from kube_runtime.leases.lease_sharding import LeaseSharding
from kube_runtime.tracing import Tracer
from kyma_diagnostics.debug_server import debug_socket
from kyma_oci import Components, Registries
from lifecycle_manager import (
    catalog_sync,
    endpoints,
    istio,
    kyma,
    mandatory_modules,
    module_authorization,
    module_catalog,
    module_config,
    module_cr_status,
    module_installation,
    module_rollouts,
    page,
    skr_webhook,
    sync_resource,
    watcher_certificates,
    watcher_crs,
)
from lifecycle_manager.contract.former import takeover
from lifecycle_manager.kyma import fleet_metrics
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_installation import Logins, ManifestSettings, SourceSettings
from lifecycle_manager.module_sources.downloads import Downloads
from lifecycle_manager.module_sources.parsing import read_yaml
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.options.clusters import SkrSettings
from lifecycle_manager.options.endpoints import EndpointSettings, PageSettings
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.options.watcher import CertificateSettings
from lifecycle_manager.process.open_files import allow_open_files
from lifecycle_manager.process.prerequisites import require_installed
from lifecycle_manager.process.runtime_options import kcp_options, manager_options
from lifecycle_manager.process.telemetry import ChangeLatency, requeue_counter
from lifecycle_manager.process.tuning import tune_process
from lifecycle_manager.replicas import ReplicaSettings, sharding_of
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr import controller as skr
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import names

log = structlog.get_logger("lifecycle_manager")


async def run(settings: Settings, tracer: Tracer | None = None) -> None:
    """Run the Lifecycle Manager until SIGTERM or SIGINT; reconciles under way are finished first."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    log.info("starting", **settings.shown())
    process, replicas = settings[ProcessSettings], settings[ReplicaSettings]
    allow_open_files(settings[EndpointSettings].max_event_connections, settings[SkrSettings].max_clients)
    metrics = RuntimeMetrics()
    async with (
        await Client.from_environment(process.kubeconfig, options=kcp_options(process, metrics)) as kcp,
        # Leases are renewed by a client of their own: no other request may delay that.
        await Client.from_environment(process.kubeconfig, options=ClientOptions(qps=0, metrics=metrics)) as leases,
    ):
        leased = [replicas.namespace] if replicas.enabled else []
        await require_installed(kcp, [names.KCP_NAMESPACE, *leased])
        async with (
            lifecycle_manager(settings, kcp, sharding_of(replicas, leases), metrics, tracer) as manager,
            debug_socket(process.debug_socket, {"queues": manager.queue_report}),
        ):
            manager.before_start(tune_process)
            await manager.run(stopping)
    log.info("stopped")


@asynccontextmanager
async def lifecycle_manager(
    settings: Settings,
    kcp: Client,
    sharding: LeaseSharding | None = None,
    metrics: RuntimeMetrics | None = None,
    tracer: Tracer | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Manager]:
    """Compose a Lifecycle Manager that is ready to run. `metrics` are those that the clients of KCP count into."""
    registry, process = CollectorRegistry(), settings[ProcessSettings]
    manager = Manager(
        kcp,
        manager_options(process),
        namespace=names.KCP_NAMESPACE,
        clock=clock,
        sharding=takeover().sharding(settings, sharding or ALONE),
        metrics=metrics,
        registry=registry,
        events=EventRecorder(kcp, controller=names.LIFECYCLE_MANAGER, instance=socket.gethostname()),
        on_result=requeue_counter(registry),
        tracer=tracer,
    )
    connections = skr.connections_of(manager, settings[SkrSettings])
    registries = Registries(allowed=settings[SourceSettings].allowed_hosts, proxy_of=proxy_of_environment)
    async with AsyncExitStack() as stack:
        for each in (registries, connections):
            stack.push_async_callback(each.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klm-")))
        _set_up(manager, settings, kcp, connections, oci=registries, folder=folder)
        yield manager


def _set_up(
    manager: Manager, options: Settings, kcp: Client, connections: Connections, *, oci: Registries, folder: Path
) -> None:
    """Declare every controller and server. To add a controller, add its folder, and its `setup` here."""
    latency, certificates = ChangeLatency(manager.registry, manager.clock), options[CertificateSettings]
    sources, manifests, process = options[SourceSettings], options[ManifestSettings], options[ProcessSettings]
    downloads = Downloads(allowed=sources.allowed_hosts)
    kinds, configs = ModuleKinds(downloads.text, manifests.namespace), options[module_config.ModuleConfigSettings]
    logins = Logins(kcp, sources.login_secret)
    store = ObjectStore(oci, downloads.text)
    components = Components(oci, logins.default_login, read_yaml, sources.component_base)

    ours = takeover().setup(manager, kcp)
    skr.setup(manager, connections, options[SkrSettings])
    restricted, namespace = manifests.restricted_modules, manifests.namespace
    offers = module_catalog.setup(manager, components, downloads.text, restricted=restricted, namespace=namespace)
    fleet_metrics.setup(manager, offers, each_kyma=process.kyma_metrics, fips_only=process.fips_only)
    cas, leaves = watcher_certificates.setup(manager, kcp, certificates, adopts=takeover().find_cas)
    kyma.setup(manager, connections, offers=offers, settings=options[kyma.KymaSettings])
    rollout, watcher = options[kyma.KymaSettings].rollout, options[skr_webhook.WatcherSettings]
    module_rollouts.setup(manager, offers, rollout)
    catalog_sync.setup(manager, connections, offers, options[catalog_sync.CatalogSettings])
    mandatory_modules.setup(manager, offers, options[mandatory_modules.MandatorySettings], rollout)
    module_installation.setup(manager, connections, offers, store, logins, manifests)
    module_config.setup(manager, connections, kinds=kinds, latency=latency, settings=configs)
    module_cr_status.setup(manager, connections, options[module_cr_status.ModuleCrStatusSettings])
    unprotected = module_authorization.setup(manager, kcp, options[module_authorization.ModuleAuthorizationSettings])
    sync_resource.setup(manager, connections, latency, options[sync_resource.SyncResourceSettings], unprotected)
    skr_webhook.setup(manager, connections, kinds, cas=cas, certificates=leaves, settings=watcher)
    watcher_crs.setup(manager, are_routed=options[istio.IstioSettings].enabled)
    istio.setup(manager, lambda: cas.current, options[istio.IstioSettings])
    listens, checks = options[EndpointSettings], endpoints.validators(manager, offers)
    endpoints.setup(manager, kcp, folder, cas=cas, validators=checks, latency=latency, settings=listens, selects=ours)
    page.setup(manager, kcp, offers, options[PageSettings])
    manager.serves(lambda: endpoints.report_ready(listens.event_names.address), name="readiness")
