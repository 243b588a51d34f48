"""Composition: the one place where the Lifecycle Manager's parts are made and wired together.

Informers feed caches and wake keys; events wake keys sooner; one controller for each thing that is looked after works
its queue off. Nothing else connects the folders.
"""

import asyncio
import re
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from kube_runtime import Client, ClientOptions, EventRecorder, KubeconfigPolicy, ObjectKey, Priority, RuntimeMetrics
from kube_runtime.health import LoopMonitor, ProbeServer
from kube_runtime.leases import LeaseTiming
from kyma_certs import Algorithm, Authorities, RotationRules
from lifecycle_manager.catalog_sync import CatalogReconciler
from lifecycle_manager.clock import utc_now
from lifecycle_manager.controllers import Controllers, Reconcilers
from lifecycle_manager.endpoints import Endpoints, names_of_admission
from lifecycle_manager.garbage import collect_less
from lifecycle_manager.informers import Informers
from lifecycle_manager.kyma import KymaReconciler, Patience
from lifecycle_manager.mandatory_modules import MandatoryInstallation, MandatoryRetirement
from lifecycle_manager.module_catalog import Lookups, Offers
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_config import ModuleConfigReconciler
from lifecycle_manager.module_installation import Blobs, Components, Logins, ManifestReconciler, ObjectStore, Registries
from lifecycle_manager.oci.downloads import Downloads
from lifecycle_manager.open_files import allow_open_files
from lifecycle_manager.replicas import REPLICA_HOST, Alone, Shared, Sharing
from lifecycle_manager.rollout import Schedule
from lifecycle_manager.routing import EventRouter
from lifecycle_manager.settings import Settings, split_address
from lifecycle_manager.skr import Connections
from lifecycle_manager.skr_webhook import (
    AuthorityCollector,
    AuthorityRotation,
    AuthorityStore,
    Canaries,
    CanaryTimes,
    CertificateStore,
    CertManagerStore,
    LeafRules,
    LeafStore,
    SkrWebhookReconciler,
    WatcherSettings,
    WatcherStatusReconciler,
    certificates_issued,
)
from lifecycle_manager.sync_resource import SyncResourceReconciler, parse_allowances
from lifecycle_manager.telemetry import (
    ChangeLatency,
    FleetCollector,
    policy_readable,
    requeue_reasons,
)
from lifecycle_manager.wiring import Wiring

log = structlog.get_logger("lifecycle_manager")

GRACE_SECONDS = 20.0
MIB = 1024 * 1024
SKR_LONGEST_ANSWER, SKR_LONGEST_LIST = 64 * MIB, 128 * MIB
"""What a cluster may answer: its users can put a server of their own in the place of a group of its API."""

LOOKUP_SECONDS = 30.0
"""How long a start waits at most for descriptors from the registry."""
SKR_REQUESTS_AT_ONCE = 16
# Longer than a quiet cluster is left alone, so that one connection to it stays warm; shorter than servers keep an idle
# one, so that nobody closes it under a request.
SKR_IDLE_SECONDS = 70.0
SKR_SPARE_SECONDS = 5.0


async def run(settings: Settings) -> None:
    """Run the Lifecycle Manager until SIGTERM or SIGINT; what was acknowledged is finished first."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    log.info("starting", **settings.model_dump(mode="json"))
    allow_open_files(settings)
    collect_less()
    metrics = RuntimeMetrics()
    options = ClientOptions(qps=settings.k8s_client_qps, burst=settings.k8s_client_burst, metrics=metrics)
    async with (
        await Client.from_environment(settings.kubeconfig, options=options) as kcp,
        # Leases are renewed by a client of their own: nothing else that is asked for may delay that.
        await Client.from_environment(settings.kubeconfig, options=ClientOptions(qps=0, metrics=metrics)) as leases,
    ):
        shared = _shared(settings, leases) if settings.leader_elect else None
        await LifecycleManager(settings, kcp, shared, metrics).run(stopping)
    log.info("stopped")


def _shared(settings: Settings, leases: Client) -> Shared:
    host = socket.gethostname()
    timing = LeaseTiming(
        lease_seconds=int(settings.leader_election_lease_duration.total_seconds()),
        act_seconds=settings.leader_election_renew_deadline.total_seconds(),
        renew_seconds=settings.leader_election_retry_period.total_seconds(),
    )
    return Shared(
        leases,
        name=settings.replica_name or re.sub(r"[^a-z0-9-]+", "-", host.lower()).strip("-") or "replica",
        succeeds=bool(settings.replica_name),
        address=settings.replica_address or f"{host}:{split_address(settings.replica_bind_address)[1]}",
        timing=timing,
    )


class LifecycleManager:
    """The parts of one process and how they are wired. Constructing it starts nothing.

    Without `shared` it is the only replica. `metrics` are those that the clients of the control plane count into.
    """

    def __init__(
        self, settings: Settings, kcp: Client, shared: Shared | None = None, metrics: RuntimeMetrics | None = None
    ) -> None:
        self.settings = settings
        self.shared = shared
        self.sharing: Sharing = shared or Alone()
        self.kcp = kcp
        self.fenced_kcp = kcp.fenced_by(self.sharing.check)
        self.registry = CollectorRegistry()
        self.metrics = metrics or RuntimeMetrics()
        self.registry.register(self.metrics)
        self.latency = ChangeLatency(self.registry)
        self.informers = Informers.on(kcp, self.metrics)
        self.registries = Registries()
        self.lookups = Lookups(self.informers.templates, self.informers.releases, self._components().descriptor)
        self.offers = Offers(self.informers.templates, self.informers.releases, self.lookups)
        self.not_renewed: set[str] = set()
        self.registry.register(
            FleetCollector(
                self.informers.kymas, self.informers.manifests, self.offers, self.sharing.owns, self.not_renewed
            )
        )
        self.connections = Connections(
            self.informers.secrets,
            ClientOptions(
                qps=settings.k8s_skr_client_qps,
                burst=settings.k8s_skr_client_burst,
                timeout_seconds=settings.skr_request_timeout.total_seconds(),
                max_in_flight=SKR_REQUESTS_AT_ONCE,
                keep_alive_seconds=SKR_IDLE_SECONDS,
                spare_seconds=SKR_SPARE_SECONDS,
                max_response_bytes=SKR_LONGEST_ANSWER,
                max_list_bytes=SKR_LONGEST_LIST,
                circuit=True,
            ),
            KubeconfigPolicy.permissive() if settings.allow_insecure_kubeconfigs else KubeconfigPolicy.strict(),
            warm=settings.max_warm_skrs,
            fence=self.sharing.check,
        )
        self.downloads = Downloads()
        self.kinds = ModuleKinds(self.downloads.text, settings.sync_namespace)
        self.recorder = EventRecorder(kcp, controller="lifecycle-manager", instance=socket.gethostname())
        self._taking_events = False

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until told to stop. Raises TimeoutError where the first lists don't come in time."""
        with tempfile.TemporaryDirectory(prefix="klm-tls-") as directory, ExitStack() as stack:
            monitor = LoopMonitor()
            probes = ProbeServer(monitor, self._checks(), registry=self.registry)
            for address in (self.settings.health_probe_bind_address, self.settings.metrics_bind_address):
                stack.enter_context(probes.serving(*split_address(address)))
            async with asyncio.TaskGroup() as tasks:
                watching_ourselves = tasks.create_task(monitor.run())
                watching = self.informers.start_in(tasks)
                recording = tasks.create_task(self.recorder.run())
                looking_up = tasks.create_task(self.lookups.run())
                await self.informers.wait_synced(self.settings.cache_sync_timeout.total_seconds())
                await self.lookups.wait_tried(LOOKUP_SECONDS)
                await self._control(Path(directory), stopping)
                for task in (*watching, recording, looking_up, watching_ourselves):
                    task.cancel()
        await self.registries.close()
        await self.connections.close()

    def _checks(self) -> dict[str, Callable[[], bool]]:
        """Return what has to be so before this process is ready, by its name."""
        return {"informers": lambda: self.informers.synced, "events": lambda: self._taking_events}

    async def _control(self, directory: Path, stopping: asyncio.Event) -> None:
        """Take events and work the queues off until told to stop, then finish what was acknowledged."""
        rotation = await self._rotation()
        controllers = self.controllers(rotation, self.settings.module_cache_dir or directory / "layers")
        wiring = Wiring(self.informers, controllers)
        router = EventRouter(self.informers.kymas, self.informers.manifests, controllers, self.latency)
        endpoints = Endpoints(
            self.settings,
            self.kcp,
            self.informers,
            self.offers,
            self.registry,
            directory,
            ready=lambda: self._taking_events,
        )
        rotation.adopt = partial(self._adopt, endpoints, controllers)
        wiring.connect()
        self.lookups.on_news = wiring.descriptor_looked_up
        async with asyncio.TaskGroup() as tasks:
            serving = await endpoints.open_in(tasks, router, self.shared, lambda: rotation.current)
            controllers.start_in(tasks)
            taking_part = tasks.create_task(self._take_part(wiring))
            self._taking_events = True
            log.info("ready", event_address=self.settings.event_address)
            await stopping.wait()
            self._taking_events = False
            log.info("stopping", grace_seconds=GRACE_SECONDS)
            for task in serving:
                task.cancel()
            await controllers.shutdown(GRACE_SECONDS)
            taking_part.cancel()  # only now are the other replicas to take over

    async def _take_part(self, wiring: Wiring) -> None:
        """Begin with every Kyma, or with those that are this replica's by the Leases of all."""
        if self.shared is None:
            wiring.begin(wiring.kyma_names())
            return
        await self.shared.run(wiring)

    async def _rotation(self) -> AuthorityRotation:
        settings = self.settings
        store = AuthorityStore(self.kcp, utc_now, lifetime=settings.self_signed_ca_duration)
        rules = RotationRules(
            renew_before=settings.self_signed_ca_renew_before,
            grace=settings.self_signed_ca_rotation_grace,
            patience=settings.self_signed_ca_rotation_patience,
        )
        in_force = (await store.ensure()).authorities
        rotation = AuthorityRotation(store, self.informers.kymas, utc_now, in_force, rules, events=self.recorder)
        self.registry.register(AuthorityCollector(rotation))
        return rotation

    async def _adopt(self, endpoints: Endpoints, controllers: Controllers, authorities: Authorities) -> None:
        """Have all that this process serves and installs follow the authorities that are in force."""
        await endpoints.adopt(authorities)
        for kyma in self.informers.kymas.cache.list():
            key = ObjectKey(kyma.metadata.namespace, kyma.metadata.name)
            controllers.skr_webhook.queue.add(key, Priority.RESYNC)

    def controllers(self, rotation: AuthorityRotation, layers: Path) -> Controllers:
        """Make the controllers, each with its queue; none of them runs yet. `layers` is where modules are cached."""
        settings, informers, kcp = self.settings, self.informers, self.fenced_kcp
        reconcilers = Reconcilers(
            kyma=KymaReconciler(
                kcp,
                self.connections,
                informers.kymas,
                self.offers,
                informers.manifests,
                informers.module_configs,
                informers.sync_resources,
                informers.kyma_definitions,
                self._schedule(),
                self.recorder,
                interval_seconds=settings.kyma_requeue_success_interval.total_seconds(),
                leaving_seconds=settings.kyma_requeue_busy_interval.total_seconds(),
                patience=Patience(
                    settings.skr_unreachable_grace,
                    settings.deletion_warning_after,
                    settings.purge_finalizer_timeout if settings.enable_purge_finalizer else None,
                ),
            ),
            catalog=CatalogReconciler(
                kcp,
                self.connections,
                informers.kymas,
                self.offers,
                utc_now,
                interval_seconds=settings.catalog_requeue_success_interval.total_seconds(),
                leaving_seconds=settings.kyma_requeue_busy_interval.total_seconds(),
                purge=settings.purge_finalizer_timeout if settings.enable_purge_finalizer else None,
            ),
            mandatory=MandatoryInstallation(
                kcp,
                informers.kymas,
                self.offers,
                informers.manifests,
                self.recorder,
                interval_seconds=settings.mandatory_module_requeue_success_interval.total_seconds(),
            ),
            mandatory_retirement=MandatoryRetirement(
                kcp, informers.templates, informers.releases, self.offers, informers.manifests
            ),
            skr_webhook=SkrWebhookReconciler(
                kcp,
                self.connections,
                informers.kymas,
                informers.templates,
                informers.watchers,
                self.kinds,
                self._certificates(),
                lambda: rotation.current,
                WatcherSettings(
                    image=settings.skr_watcher_image,
                    kcp_address=settings.event_address,
                    memory_limit=settings.skr_webhook_memory_limits,
                    cpu_limit=settings.skr_webhook_cpu_limits,
                    replicas=settings.skr_webhook_replicas,
                ),
                utc_now,
                self.recorder,
                Canaries(
                    CanaryTimes(
                        settings.watcher_canary_interval.total_seconds(),
                        settings.watcher_canary_patience.total_seconds(),
                    )
                ),
                self.not_renewed,
                settings.self_signed_cert_renew_before - settings.self_signed_cert_renew_buffer,
                silence_seconds=settings.watcher_silence.total_seconds(),
                interval_seconds=settings.watcher_requeue_success_interval.total_seconds(),
            ),
            watcher_status=WatcherStatusReconciler(kcp, informers.watchers, informers.kymas, utc_now),
            module_config=ModuleConfigReconciler(
                kcp,
                self.connections,
                informers.kymas,
                informers.templates,
                informers.module_configs,
                self.kinds,
                self.latency,
                interval_seconds=settings.module_config_requeue_success_interval.total_seconds(),
            ),
            manifest=ManifestReconciler(
                kcp,
                self.connections,
                informers.manifests,
                self.offers,
                ObjectStore(self.registries, self.downloads.text, Blobs(layers)),
                Logins(kcp, settings.oci_registry_cred_secret),
                self.recorder,
                interval_seconds=settings.manifest_requeue_success_interval.total_seconds(),
                busy_seconds=settings.manifest_requeue_busy_interval.total_seconds(),
                namespace=settings.sync_namespace,
            ),
            sync_resource=SyncResourceReconciler(
                kcp,
                self.connections,
                informers.kymas,
                informers.sync_resources,
                self.latency,
                self.recorder,
                allowances=parse_allowances(settings.sync_resource_allow),
                interval_seconds=settings.sync_resource_requeue_success_interval.total_seconds(),
            ),
            authority=rotation,
        )
        requeues = requeue_reasons(self.registry)
        controllers = Controllers(
            reconcilers, self.connections, informers, settings, self.metrics, requeues, self.sharing.owns
        )
        self.connections.on_silence = controllers.cluster_is_silent
        return controllers

    def _components(self) -> Components:
        settings = self.settings
        host, path = settings.oci_registry_host.rstrip("/"), settings.modules_repository_subpath.strip("/")
        logins = Logins(self.kcp, settings.oci_registry_cred_secret)
        return Components(self.registries, logins.default_login, "/".join(filter(None, (host, path))) if host else "")

    def _schedule(self) -> Schedule:
        return Schedule(
            self.informers.releases,
            utc_now,
            self.settings.module_upgrade_rollout_max_delay,
            self.settings.maintenance_policy,
            self.settings.min_maintenance_window_size,
            policy_readable(self.registry),
        )

    def _certificates(self) -> LeafStore:
        settings = self.settings
        rules = LeafRules(
            lifetime=settings.self_signed_cert_duration,
            renew_before=settings.self_signed_cert_renew_before,
            algorithm=Algorithm(settings.self_signed_cert_key_algorithm),
            rsa_key_size=settings.self_signed_cert_key_size,
            additional_dns_names=settings.additional_dns_names,
            reserved_names=(split_address(settings.event_address)[0], *names_of_admission(settings), REPLICA_HOST),
            naming_template=settings.self_signed_cert_naming_template,
        )
        count = certificates_issued(self.registry).labels(settings.cert_management).inc
        if settings.cert_management == "built-in":
            return CertificateStore(self.fenced_kcp, self.informers.secrets, utc_now, rules, count)
        issuer = settings.self_signed_cert_issuer_name
        return CertManagerStore(
            self.fenced_kcp, self.informers.secrets, utc_now, rules, AuthorityStore.name, issuer, count
        )
