"""The servers of this replica: for Watchers' events, for events that other replicas hand over, and for admission.

Each has a certificate of the CA in force, issued by this process for itself and renewed daily, and at once where other
CAs are in force.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from http_guard import Bounds
from kube_runtime import Client, KubeError, Manager, NotFound
from kube_runtime.leases.membership import Membership
from kyma_certs import Usage
from lifecycle_manager import admission, events, replicas
from lifecycle_manager.contract.conditions import has_webhook
from lifecycle_manager.contract.dns_names import REPLICA_HOST, admission_names
from lifecycle_manager.contract.resources import FIELD_MANAGER, MODULE_CONFIGS, WATCHERS
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, Subscriber
from lifecycle_manager.events.identity import FormerWatchers
from lifecycle_manager.events.problems import refusal_counter
from lifecycle_manager.events.publishing import EventPublisher, managers_of
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.validation import release_warnings, template_error, template_warnings
from lifecycle_manager.object_set.policy import Policies, namespace_objection
from lifecycle_manager.options.endpoints import EndpointSettings
from lifecycle_manager.process.serving import serve
from lifecycle_manager.process.serving_certificate import ServingCertificate
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.replicas import Deliveries
from lifecycle_manager.sync_resource import objection_to
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation
from lifecycle_manager_api import Kyma, ModulePolicy, ModuleReleaseMeta, ModuleTemplate, SyncResource, names

RENEWAL_SECONDS = 24 * 3600.0
RETRY_SECONDS = 2.0
CHECK_SECONDS = 30.0
"""After that time a webhook configuration that somebody changed or deleted is restored."""
MAX_CONNECTIONS_PER_WATCHER = 100
MAX_CONNECTIONS_PER_REPLICA = 50
"""Connections at once with the certificate of one SKR's Watcher, of which each replica has 8 at most."""

Address = tuple[str, int]
log = structlog.get_logger("endpoints")


def validators(manager: Manager, offers: Offers) -> Mapping[str, admission.Validator]:
    """Return the validators by the plural of their resource."""
    policies = Policies.watched_by(manager)
    configs = manager.informer(MODULE_CONFIGS, namespace=None)
    return {
        SyncResource.PLURAL: admission.validator_for(
            SyncResource,
            lambda wanted: objection_to(wanted, policies.of_sync_resources(wanted.spec.module)),
            in_thread=True,
        ),
        ModulePolicy.PLURAL: admission.validator_for(
            ModulePolicy,
            lambda policy: namespace_objection(policy, configs.list()),
            deletion=lambda policy: namespace_objection(policy, configs.list(), is_deletion=True),
        ),
        ModuleTemplate.PLURAL: admission.validator_for(
            ModuleTemplate,
            lambda template: template_error(template, offers.current()),
            lambda template: template_warnings(template, offers.current()),
        ),
        ModuleReleaseMeta.PLURAL: admission.validator_for(
            ModuleReleaseMeta, warnings=lambda release: release_warnings(release, offers.current())
        ),
    }


def setup(
    manager: Manager,
    kcp: Client,
    folder: Path,
    *,
    cas: CARotation,
    validators: Mapping[str, admission.Validator],
    latency: ChangeLatency,
    settings: EndpointSettings,
    selects: Callable[[Kyma], bool] | None = None,
) -> None:
    """Serve while the manager runs. To be called after `watcher_certificates.setup`.

    `kcp` is a client that is not fenced, since every replica serves. `folder` keeps the certificates of this process.
    Only events of Kymas that `selects` selects are taken, by default all.
    """
    endpoints = Endpoints(manager, kcp, folder, cas=cas, settings=settings)
    manager.before_start(endpoints.write_certificates)
    manager.runs(endpoints.renew_certificates, name="serving certificates")
    publisher = EventPublisher(manager, latency, selects=selects)
    events.setup(manager)
    subscriber: Subscriber = publisher.take_here
    if (membership := manager.sharding.membership) is not None:
        deliveries = Deliveries(endpoints.for_replicas.client_context)
        subscriber = replicas.distributed(publisher, membership, deliveries)
        manager.serves(deliveries.run, name="deliveries")
        manager.serves(partial(endpoints.serve_replicas, publisher, membership), name="events of replicas")
    manager.serves(partial(endpoints.serve_events, publisher, subscriber), name="events")
    if settings.enable_webhooks:
        manager.serves(partial(endpoints.serve_admission, validators), name="admission")


async def report_ready(address: str) -> None:
    """Log that all servers are started; to be served after them."""
    log.info("ready", event_address=address)


class Endpoints:
    """The servers, and the certificates that they have."""

    def __init__(
        self, manager: Manager, kcp: Client, folder: Path, *, cas: CARotation, settings: EndpointSettings
    ) -> None:
        certificate = partial(ServingCertificate, clock=manager.clock)
        self.for_events = certificate(folder / "events", settings.event_names.hosts)
        self.for_admission = certificate(folder / "admission", admission_names(settings.webhook_service))
        self.for_replicas = certificate(folder / "replicas", (REPLICA_HOST,), usages=frozenset(Usage))
        self._manager = manager
        self._kcp = kcp
        self._cas = cas
        self._settings = settings
        self._watchers = manager.informer(WATCHERS)
        self._count_refusal = refusal_counter(manager.registry)
        self._cas_changed = asyncio.Event()
        manager.on(CAsChanged, lambda _: self._cas_changed.set())

    async def write_certificates(self) -> None:
        """Issue certificates by the CA in force. Raises OSError."""
        for certificate in (self.for_events, self.for_admission, self.for_replicas):
            await certificate.write(self._cas.current)

    async def renew_certificates(self) -> None:
        """Issue certificates anew each day, and at once for other CAs, until cancelled; failures are retried."""
        wait = RENEWAL_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._cas_changed.wait()
            self._cas_changed.clear()
            try:
                await self.write_certificates()
                if self._settings.enable_webhooks:
                    await self._register_webhooks()
            except (OSError, KubeError) as error:
                log.warning("certificates could not be renewed", error=str(error), retry_seconds=RETRY_SECONDS)
                wait = RETRY_SECONDS
            else:
                wait = RENEWAL_SECONDS

    async def serve_events(self, publisher: EventPublisher, subscriber: Subscriber) -> None:
        proxies = self._settings.trusted_proxies
        former = FormerWatchers(
            lambda: self._cas.is_adopted,
            lambda runtime: publisher.any_kyma(runtime, lambda kyma: not has_webhook(kyma)),
        )
        endpoint = EventEndpoint(
            trust=lambda: self._cas.current.trusted,
            subscriber=subscriber,
            managers=lambda: managers_of(self._watchers.list()),
            ready=lambda: self._manager.working,
            revoked_before=publisher.revoked_before,
            is_runtime=lambda runtime: publisher.any_kyma(runtime, lambda _: True),
            count_refusal=self._count_refusal,
            former_watchers=former,
            options=EndpointOptions(
                require_peer=True,
                accept_unsigned=self._settings.accept_unsigned_events,
                trusted_proxies=proxies,
            ),
            clock=self._manager.clock,
        )
        # The application refuses connections without a certificate, unless they come from a proxy. All connections of
        # a proxy may have the certificate of the proxy.
        tls = self.for_events.server_context(ssl.CERT_OPTIONAL if proxies else ssl.CERT_REQUIRED)
        await serve(
            endpoint,
            *self._settings.events,
            tls,
            bounds=Bounds(connections=self._settings.max_event_connections),
            max_connections_per_peer=None if proxies else MAX_CONNECTIONS_PER_WATCHER,
        )

    async def serve_replicas(self, publisher: EventPublisher, membership: Membership) -> None:
        """Take the events that other replicas hand over."""
        app = replicas.create_app(publisher, membership, lambda: self._manager.working)
        await serve(
            app,
            *self._settings.replicas,
            self.for_replicas.server_context(),
            max_connections_per_peer=MAX_CONNECTIONS_PER_REPLICA,
            admits=replicas.is_replica,
        )

    async def serve_admission(self, validators: Mapping[str, admission.Validator]) -> None:
        client_ca = self._settings.webhook_client_ca
        app = admission.create_app(validators)
        clients = ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED
        tls = self.for_admission.server_context(clients, client_ca)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_registered())
            await serve(app, *self._settings.admission, tls)

    async def _keep_registered(self) -> None:
        """Restore the webhook configuration, whoever changes or deletes it, until cancelled."""
        while True:
            wait = CHECK_SECONDS
            try:
                await self._register_webhooks()
            except KubeError as error:
                wait = RETRY_SECONDS
                log.warning("webhooks could not be registered", error=str(error), retry_seconds=wait)
            await asyncio.sleep(wait)

    async def _register_webhooks(self) -> None:
        """Have the API server of KCP send objects for validation. Raises KubeError.

        A merge patch replaces what others have added, too, such as selectors and conditions; an apply would leave it.
        """
        document = admission.webhook_configuration(
            self._settings.webhook_service, names.KCP_NAMESPACE, self._cas.current.trusted
        )
        name = document["metadata"]["name"]
        webhooks = {"webhooks": document["webhooks"]}
        try:
            found = await self._kcp.get(admission.ADMISSION_WEBHOOKS, name)
            if found.get("webhooks") != document["webhooks"]:
                await self._kcp.merge_patch(admission.ADMISSION_WEBHOOKS, name, webhooks, field_manager=FIELD_MANAGER)
        except NotFound:
            await self._kcp.apply(admission.ADMISSION_WEBHOOKS, name, document, field_manager=FIELD_MANAGER)
