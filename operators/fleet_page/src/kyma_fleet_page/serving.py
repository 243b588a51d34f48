"""The fleet page of this replica: what it shows, from the caches of the control plane, and where it is served.

It listens on a loopback address only, since tokens come over it: for `kubectl port-forward`, and for an authenticating
proxy in the same Pod.
"""

import asyncio

import structlog

from http_guard import Bounds, server_for
from kube_runtime import Client, Manager
from kyma_fleet_page.access import Access, Authorizer
from kyma_fleet_page.app import create_app
from kyma_fleet_page.clusters import Clusters
from kyma_fleet_page.guard import Guard
from kyma_fleet_page.oidc import IdentityProvider
from kyma_fleet_page.signing_in import OwnLink
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_ROLLOUTS,
    SYNC_RESOURCES,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.options.endpoints import PageSettings
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager_api import names

LOOPBACK = ("127.0.0.1", 0)
MAX_READERS = 4
"""How many pages read from the API server at once."""
BOUNDS = Bounds(connections=300)

log = structlog.get_logger("page")


def setup(manager: Manager, kcp: Client, offers: Offers, settings: PageSettings) -> None:
    """Serve the page while the manager runs, at the address that the settings have.

    `kcp` is a client that is not fenced, since every replica serves.
    """
    address = settings.address or LOOPBACK
    app = page_of(manager, kcp, offers, settings, Access(kcp, names.KCP_NAMESPACE, manager.clock))

    async def serve() -> None:
        server = server_for(app, *address, bounds=BOUNDS)
        log.info("fleet page is served", address=f"{address[0]}:{address[1]}")
        await server.serve_until_cancelled()

    manager.serves(serve, name="fleet page")


def page_of(
    manager: Manager,
    kcp: Client,
    offers: Offers,
    settings: PageSettings,
    access: Authorizer,
    own_link: OwnLink | None = None,
) -> Guard:
    """Return the page as an application on the caches of a manager; `own_link`: for one operator alone."""
    clusters = Clusters(
        kcp=kcp,
        offers=offers,
        schedule=Schedule.watched_by(manager, offers, settings.rollout),
        kymas=manager.informer(KYMAS),
        manifests=manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_KYMA]),
        configs=manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA]),
        sync_resources=manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_KYMA]),
        releases=manager.informer(DATED_RELEASE_METAS),
        rollouts=manager.informer(MODULE_ROLLOUTS),
        policies=Policies.watched_by(manager),
        reading=asyncio.Semaphore(MAX_READERS),
        sync_namespace=settings.sync_namespace,
    )
    return create_app(
        clusters,
        access,
        control_plane=kcp.server.partition("://")[2],
        hosts=settings.hosts,
        provider=IdentityProvider.configured(settings.oidc),
        own_link=own_link,
        clock=manager.clock,
    )
