"""Composition: the one place where the Lifecycle Manager's parts are made and wired together.

Informers feed caches and wake keys; events wake keys sooner; one controller for each thing that is looked after works
its queue off. Nothing else connects the folders.
"""

import asyncio
import signal
import socket
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from certs import Algorithm, Authorities, RotationRules
from guarded_http import Bounds
from kube_runtime import Client, ClientOptions, EventRecorder, KubeconfigPolicy, ObjectKey, Priority, RuntimeMetrics
from kube_runtime.health import LoopMonitor, ProbeServer
from lifecycle_manager import admission, events
from lifecycle_manager.catalog import CatalogReconciler
from lifecycle_manager.clock import utc_now
from lifecycle_manager.controllers import Controllers, Reconcilers, Wiring
from lifecycle_manager.informers import Informers
from lifecycle_manager.kyma import Intervals, KymaReconciler, Patience, Schedule
from lifecycle_manager.mandatory import MandatoryInstallation, MandatoryRetirement
from lifecycle_manager.manifest import Blobs, Logins, ManifestReconciler, ObjectStore, Pace, Registries
from lifecycle_manager.module_config import ModuleConfigReconciler
from lifecycle_manager.module_kinds import Downloads, ModuleKinds
from lifecycle_manager.modules import Offers
from lifecycle_manager.modules.objections import objection_to_template, warnings_about_release
from lifecycle_manager.resources import FIELD_MANAGER
from lifecycle_manager.routing import EventRouter, ManagerPaths
from lifecycle_manager.serving import serve
from lifecycle_manager.serving_certificate import ServingCertificate
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
from lifecycle_manager.sync_resource import SyncResourceReconciler, objection_to, parse_allowances
from lifecycle_manager.telemetry import (
    ChangeLatency,
    FleetCollector,
    certificates_not_renewed,
    policy_readable,
    requeue_reasons,
)
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, SyncResource, names

log = structlog.get_logger("lifecycle_manager")

GRACE_SECONDS = 20.0
FIRST_PROBE_SECONDS = 0.5
SERVING_CERTIFICATE_SECONDS = 24 * 3600.0


async def run(settings: Settings) -> None:
    """Run the Lifecycle Manager until SIGTERM or SIGINT; what was acknowledged is finished first."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    log.info("starting", **settings.model_dump(mode="json"))
    options = ClientOptions(qps=settings.k8s_client_qps, burst=settings.k8s_client_burst)
    async with await Client.from_environment(settings.kubeconfig, options=options) as kcp:
        await LifecycleManager(settings, kcp).run(stopping)
    log.info("stopped")


class LifecycleManager:
    """The parts of one process and how they are wired. Constructing it starts nothing."""

    def __init__(self, settings: Settings, kcp: Client) -> None:
        self.settings = settings
        self.kcp = kcp
        self.registry = CollectorRegistry()
        self.latency = ChangeLatency(self.registry)
        self.informers = Informers.on(kcp)
        self.offers = Offers(self.informers.templates, self.informers.releases)
        self.registry.register(FleetCollector(self.informers.kymas, self.informers.manifests, self.offers))
        self.connections = Connections(
            self.informers.secrets,
            ClientOptions(
                qps=settings.k8s_skr_client_qps,
                burst=settings.k8s_skr_client_burst,
                timeout_seconds=settings.skr_request_timeout.total_seconds(),
                circuit=True,
            ),
            KubeconfigPolicy.permissive() if settings.allow_insecure_kubeconfigs else KubeconfigPolicy.strict(),
            warm=settings.max_warm_skrs,
        )
        self.downloads = Downloads()
        self.registries = Registries()
        self.kinds = ModuleKinds(self.downloads.text)
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
                await self.informers.wait_synced(self.settings.cache_sync_timeout.total_seconds())
                await self._control(Path(directory), stopping)
                for task in (*watching, recording, watching_ourselves):
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
        for_events = ServingCertificate(directory / "events", self._endpoint_names(), utc_now)
        for_admission = ServingCertificate(directory / "admission", self._webhook_names(), utc_now)
        for certificate in (for_events, for_admission):
            await certificate.write(rotation.current)
        rotation.adopt = partial(self._adopt, (for_events, for_admission), controllers)
        Wiring(self.informers, controllers).connect()
        async with asyncio.TaskGroup() as tasks:
            controllers.start_in(tasks)
            serving = [
                tasks.create_task(self._serve_events(controllers, for_events, rotation)),
                tasks.create_task(self._renew((for_events, for_admission), rotation)),
            ]
            if self.settings.enable_webhooks:
                serving.append(tasks.create_task(self._serve_admission(for_admission)))
                await self._have_us_asked(rotation.current)
            self._taking_events = True
            log.info("ready", event_address=self.settings.event_address)
            await stopping.wait()
            self._taking_events = False
            log.info("stopping", grace_seconds=GRACE_SECONDS)
            for task in serving:
                task.cancel()
            await controllers.shutdown(GRACE_SECONDS)

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

    async def _adopt(
        self, serving: Iterable[ServingCertificate], controllers: Controllers, authorities: Authorities
    ) -> None:
        """Have all that this process serves and installs follow the authorities that are in force."""
        for certificate in serving:
            await certificate.write(authorities)
        if self.settings.enable_webhooks:
            await self._have_us_asked(authorities)
        for kyma in self.informers.kymas.cache.list():
            key = ObjectKey(kyma.metadata.namespace, kyma.metadata.name)
            controllers.skr_webhook.queue.add(key, Priority.RESYNC)

    def controllers(self, rotation: AuthorityRotation, layers: Path) -> Controllers:
        """Make the controllers, each with its queue; none of them runs yet. `layers` is where modules are cached."""
        settings, informers = self.settings, self.informers
        reconcilers = Reconcilers(
            kyma=KymaReconciler(
                self.kcp,
                self.connections,
                informers.kymas,
                self.offers,
                informers.manifests,
                informers.module_configs,
                informers.sync_resources,
                self._schedule(),
                self.recorder,
                Intervals(
                    settings.kyma_requeue_success_interval.total_seconds(),
                    settings.kyma_requeue_busy_interval.total_seconds(),
                ),
                Patience(
                    settings.skr_unreachable_grace,
                    settings.deletion_warning_after,
                    settings.purge_finalizer_timeout if settings.enable_purge_finalizer else None,
                ),
            ),
            catalog=CatalogReconciler(
                self.kcp,
                self.connections,
                informers.kymas,
                self.offers,
                utc_now,
                interval_seconds=settings.catalog_requeue_success_interval.total_seconds(),
                leaving_seconds=settings.kyma_requeue_busy_interval.total_seconds(),
            ),
            mandatory=MandatoryInstallation(
                self.kcp,
                informers.kymas,
                self.offers,
                informers.manifests,
                self.recorder,
                interval_seconds=settings.mandatory_module_requeue_success_interval.total_seconds(),
            ),
            mandatory_retirement=MandatoryRetirement(
                self.kcp, informers.templates, informers.releases, self.offers, informers.manifests
            ),
            skr_webhook=SkrWebhookReconciler(
                self.kcp,
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
                certificates_not_renewed(self.registry),
                settings.self_signed_cert_renew_before - settings.self_signed_cert_renew_buffer,
                silence_seconds=settings.watcher_silence.total_seconds(),
                interval_seconds=settings.watcher_requeue_success_interval.total_seconds(),
            ),
            watcher_status=WatcherStatusReconciler(self.kcp, informers.watchers, informers.kymas, utc_now),
            module_config=ModuleConfigReconciler(
                self.kcp,
                self.connections,
                informers.kymas,
                informers.templates,
                informers.module_configs,
                self.kinds,
                self.latency,
                interval_seconds=settings.module_config_requeue_success_interval.total_seconds(),
            ),
            manifest=ManifestReconciler(
                self.kcp,
                self.connections,
                informers.manifests,
                self.offers,
                ObjectStore(self.registries, self.downloads.text, Blobs(layers)),
                Logins(self.kcp, settings.oci_registry_cred_secret),
                self.recorder,
                Pace(
                    settings.manifest_requeue_success_interval.total_seconds(),
                    settings.manifest_requeue_busy_interval.total_seconds(),
                ),
            ),
            sync_resource=SyncResourceReconciler(
                self.kcp,
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
        metrics, requeues = RuntimeMetrics(self.registry), requeue_reasons(self.registry)
        controllers = Controllers(reconcilers, self.connections, settings, metrics, requeues)
        self.connections.on_silence = lambda name: controllers.skr_probe.queue.add_after(name, FIRST_PROBE_SECONDS)
        return controllers

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
            reserved_names=(split_address(settings.event_address)[0], *self._webhook_names()),
            naming_template=settings.self_signed_cert_naming_template,
        )
        count = certificates_issued(self.registry).labels(settings.cert_management).inc
        if settings.cert_management == "built-in":
            return CertificateStore(self.kcp, self.informers.secrets, utc_now, rules, count)
        issuer = settings.self_signed_cert_issuer_name
        return CertManagerStore(self.kcp, self.informers.secrets, utc_now, rules, AuthorityStore.name, issuer, count)

    async def _serve_events(
        self, controllers: Controllers, certificate: ServingCertificate, rotation: AuthorityRotation
    ) -> None:
        router = EventRouter(self.informers.kymas, self.informers.manifests, controllers, self.latency)
        proxies = self.settings.trusted_proxy_cidrs
        app = events.create_app(
            trust=lambda: rotation.current.trusted,
            subscribers=ManagerPaths(self.informers.watchers, router),
            ready=lambda: self._taking_events,
            revoked_before=router.revoked_before,
            count_refusal=events.refusal_counter(self.registry),
            options=events.EndpointOptions(
                require_peer=True,
                accept_unsigned=self.settings.accept_unsigned_events,
                trusted_proxies=proxies,
            ),
        )
        host, port = split_address(self.settings.kyma_skr_listener_bind_address)
        # What comes without a certificate is refused by the application, unless it comes from a proxy.
        tls = certificate.server_context(require_client_certificate=not proxies, ask_for_client_certificate=True)
        await serve(app, host, port, tls, bounds=Bounds(connections=self.settings.max_event_connections))

    async def _serve_admission(self, certificate: ServingCertificate) -> None:
        allowances = parse_allowances(self.settings.sync_resource_allow)
        app = admission.create_app(
            {
                SyncResource.PLURAL: admission.validator_for(
                    SyncResource, partial(objection_to, allowances=allowances)
                ),
                ModuleTemplate.PLURAL: admission.validator_for(
                    ModuleTemplate, lambda it: objection_to_template(it, self.offers.current())
                ),
                ModuleReleaseMeta.PLURAL: admission.validator_for(
                    ModuleReleaseMeta, warnings=lambda it: warnings_about_release(it, self.offers.current())
                ),
            }
        )
        host, port = split_address(self.settings.webhook_bind_address)
        await serve(app, host, port, certificate.server_context(require_client_certificate=False))

    async def _have_us_asked(self, authorities: Authorities) -> None:
        """Have the API server of the control plane ask before it stores what is validated."""
        document = admission.webhook_configuration(
            self.settings.webhook_service, names.KCP_NAMESPACE, authorities.trusted
        )
        name = document["metadata"]["name"]
        await self.kcp.apply(admission.ADMISSION_WEBHOOKS, name, document, field_manager=FIELD_MANAGER)

    async def _renew(self, certificates: Iterable[ServingCertificate], rotation: AuthorityRotation) -> None:
        while True:
            await asyncio.sleep(SERVING_CERTIFICATE_SECONDS)
            for certificate in certificates:
                await certificate.write(rotation.current)

    def _webhook_names(self) -> tuple[str, ...]:
        service = f"{self.settings.webhook_service}.{names.KCP_NAMESPACE}"
        return (f"{service}.svc", f"{service}.svc.cluster.local", service)

    def _endpoint_names(self) -> tuple[str, ...]:
        host, _ = split_address(self.settings.event_address)
        return tuple(dict.fromkeys((host, *self.settings.additional_dns_names)))
