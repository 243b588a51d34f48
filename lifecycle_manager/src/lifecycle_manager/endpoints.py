"""What one replica serves: events of Watchers, those that other replicas hand over, and the API server's questions.

Each endpoint has a certificate of the authority that is in force, issued by this process to itself and renewed daily.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from http_guard import Bounds
from kube_runtime import Client
from kyma_certs import Authorities, Usage
from lifecycle_manager import admission, events, replicas
from lifecycle_manager.clock import utc_now
from lifecycle_manager.events import Subscriber
from lifecycle_manager.informers import Informers
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_catalog.objections import (
    objection_to_template,
    warnings_about_release,
    warnings_about_template,
)
from lifecycle_manager.replicas import REPLICA_HOST, Deliveries, Distribution, Shared
from lifecycle_manager.resources import FIELD_MANAGER
from lifecycle_manager.routing import EventRouter, ManagerPaths
from lifecycle_manager.serving import serve
from lifecycle_manager.serving_certificate import ServingCertificate
from lifecycle_manager.settings import Settings, split_address
from lifecycle_manager.sync_resource import objection_to, parse_allowances
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, SyncResource, names

RENEWAL_SECONDS = 24 * 3600.0
MOST_OF_ONE_WATCHER = 100
"""Connections at once that show the certificate of one cluster's Watcher, of which each replica has 8 at most."""


def names_of_admission(settings: Settings) -> tuple[str, ...]:
    """Return the names by which the API server of the control plane may ask."""
    service = f"{settings.webhook_service}.{names.KCP_NAMESPACE}"
    return (f"{service}.svc", f"{service}.svc.cluster.local", service)


class Endpoints:
    """The endpoints of this replica.

    `folder` is where certificates are kept for as long as this process runs; `ready` says whether events are taken.
    """

    def __init__(
        self,
        settings: Settings,
        kcp: Client,
        informers: Informers,
        offers: Offers,
        registry: CollectorRegistry,
        folder: Path,
        ready: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._kcp = kcp
        self._informers = informers
        self._offers = offers
        self._registry = registry
        self._ready = ready
        host, _ = split_address(settings.event_address)
        hosts = tuple(dict.fromkeys((host, *settings.additional_dns_names)))
        self._for_events = ServingCertificate(folder / "events", hosts, utc_now)
        self._for_admission = ServingCertificate(folder / "admission", names_of_admission(settings), utc_now)
        self._for_replicas = ServingCertificate(folder / "replicas", (REPLICA_HOST,), utc_now, frozenset(Usage))

    async def open_in(
        self,
        tasks: asyncio.TaskGroup,
        router: EventRouter,
        shared: Shared | None,
        in_force: Callable[[], Authorities],
    ) -> list[asyncio.Task[None]]:
        """Serve in a task group, and have the API server ask; return the tasks to cancel when nothing is taken more."""
        await self._certify(in_force())
        serving = [tasks.create_task(self._renew(in_force))]
        subscriber: Subscriber = Distribution.here(router)
        if shared is not None:
            deliveries = Deliveries(self._for_replicas.client_context())
            subscriber = Distribution.among(router, shared, deliveries)
            serving += [
                tasks.create_task(deliveries.run()),
                tasks.create_task(self._serve_replicas(router, shared)),
            ]
        serving.append(tasks.create_task(self._serve_events(router, subscriber, in_force)))
        if self._settings.enable_webhooks:
            serving.append(tasks.create_task(self._serve_admission()))
            await self._have_us_asked(in_force())
        return serving

    async def adopt(self, authorities: Authorities) -> None:
        """Serve with certificates of other authorities from now on, and have the API server trust them."""
        await self._certify(authorities)
        if self._settings.enable_webhooks:
            await self._have_us_asked(authorities)

    async def _certify(self, authorities: Authorities) -> None:
        for certificate in (self._for_events, self._for_admission, self._for_replicas):
            await certificate.write(authorities)

    async def _serve_replicas(self, router: EventRouter, shared: Shared) -> None:
        host, port = split_address(self._settings.replica_bind_address)
        tls = self._for_replicas.server_context(require_client_certificate=True)
        await serve(replicas.create_app(router, shared, self._ready), host, port, tls)

    async def _serve_events(
        self, router: EventRouter, subscriber: Subscriber, in_force: Callable[[], Authorities]
    ) -> None:
        proxies = self._settings.trusted_proxy_cidrs
        app = events.create_app(
            trust=lambda: in_force().trusted,
            subscribers=ManagerPaths(self._informers.watchers, subscriber),
            ready=self._ready,
            revoked_before=router.revoked_before,
            count_refusal=events.refusal_counter(self._registry),
            options=events.EndpointOptions(
                require_peer=True,
                accept_unsigned=self._settings.accept_unsigned_events,
                trusted_proxies=proxies,
            ),
        )
        host, port = split_address(self._settings.kyma_skr_listener_bind_address)
        # What comes without a certificate is refused by the application, unless it comes from a proxy.
        tls = self._for_events.server_context(require_client_certificate=not proxies, ask_for_client_certificate=True)
        bounds = Bounds(connections=self._settings.max_event_connections)
        # A proxy's connections may all show the certificate of the proxy.
        await serve(app, host, port, tls, bounds=bounds, most_of_one_peer=None if proxies else MOST_OF_ONE_WATCHER)

    async def _serve_admission(self) -> None:
        allowances = parse_allowances(self._settings.sync_resource_allow)
        app = admission.create_app(
            {
                SyncResource.PLURAL: admission.validator_for(
                    SyncResource, partial(objection_to, allowances=allowances)
                ),
                ModuleTemplate.PLURAL: admission.validator_for(
                    ModuleTemplate,
                    lambda it: objection_to_template(it, self._offers.current()),
                    lambda it: warnings_about_template(it, self._offers.current()),
                ),
                ModuleReleaseMeta.PLURAL: admission.validator_for(
                    ModuleReleaseMeta, warnings=lambda it: warnings_about_release(it, self._offers.current())
                ),
            }
        )
        host, port = split_address(self._settings.webhook_bind_address)
        await serve(app, host, port, self._for_admission.server_context(require_client_certificate=False))

    async def _have_us_asked(self, authorities: Authorities) -> None:
        """Have the API server of the control plane ask before it stores what is validated."""
        document = admission.webhook_configuration(
            self._settings.webhook_service, names.KCP_NAMESPACE, authorities.trusted
        )
        name = document["metadata"]["name"]
        await self._kcp.apply(admission.ADMISSION_WEBHOOKS, name, document, field_manager=FIELD_MANAGER)

    async def _renew(self, in_force: Callable[[], Authorities]) -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            await self.adopt(in_force())
