"""The fleet page of this replica: what it shows, from the caches of the control plane, and where it is served.

It listens on a loopback address only, since tokens come over it: for `kubectl port-forward`, and for an authenticating
proxy in the same Pod.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client import Gauge

from http_guard import Bounds, server_for
from kube_runtime import Client, Informer, Manager, ObjectKey
from kyma_fleet.explanation.chain import GOOD, chains_not_ready, explain_all
from kyma_fleet.explanation.facts import Facts
from kyma_fleet.explanation.moments import Moment, last_change, moments
from kyma_fleet.explanation.reading import MAX_SELECTED, read_documents, read_events
from kyma_fleet.explanation.tree import tree_of
from kyma_fleet_page.access import Access
from kyma_fleet_page.app import PageSources, create_app
from kyma_fleet_page.cluster import Explanation, RecordedEvent
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    SYNC_RESOURCES,
)
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.object_set import Policies
from lifecycle_manager.page import PageSettings
from lifecycle_manager.rollout import Schedule
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, SyncResource, names

LOOPBACK = ("127.0.0.1", 0)
MAX_EVENTS, MAX_MOMENTS = 50, 40
MAX_READERS = 4
"""How many pages read from the API server at once."""
BOUNDS = Bounds(connections=300)

log = structlog.get_logger("page")


def setup(manager: Manager, kcp: Client, offers: Offers, settings: PageSettings) -> None:
    """Serve the page while the manager runs, at the address that the settings have.

    `kcp` is a client that is not fenced, since every replica serves.
    """
    address = settings.address or LOOPBACK
    releases = manager.informer(DATED_RELEASE_METAS)
    unregistered = Gauge("policy_readable_for_page", "That of the Kyma controller is the metric.", registry=None)
    clusters = _Clusters(
        kcp=kcp,
        offers=offers,
        schedule=Schedule(releases, manager.clock, settings.rollout, unregistered),
        kymas=manager.informer(KYMAS),
        manifests=manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_KYMA]),
        configs=manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA]),
        sync_resources=manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_KYMA]),
        policies=Policies.watched_by(manager),
        reading=asyncio.Semaphore(MAX_READERS),
    )
    sources = PageSources(
        kymas=clusters.kymas.list,
        kyma=clusters.kyma,
        explain=clusters.explain,
        revision=clusters.revision,
        releases=releases.list,
        events=clusters.events,
        last_change=clusters.last_change,
    )
    app = create_app(sources, Access(kcp, names.KCP_NAMESPACE, manager.clock))

    async def serve() -> None:
        server = server_for(app, *address, bounds=BOUNDS)
        log.info("fleet page is served", address=f"{address[0]}:{address[1]}")
        await server.serve_until_cancelled()

    manager.serves(serve, name="fleet page")


@dataclass(frozen=True, eq=False, kw_only=True)
class _Clusters:
    """What the page shows of a cluster: from the caches, and by the functions of `klm explain` and `klm trace`."""

    kcp: Client
    offers: Offers
    schedule: Schedule
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    policies: Policies
    reading: asyncio.Semaphore

    def kyma(self, name: str) -> Kyma | None:
        """Return a Kyma."""
        return self.kymas.get(ObjectKey(names.KCP_NAMESPACE, name))

    async def explain(self, kyma: Kyma) -> Explanation:
        """Return why a cluster is as it is, and what to do next. Decided outside of the event loop, from one moment."""
        return await asyncio.to_thread(_explanation_of, self._facts(kyma))

    def revision(self, name: str) -> Hashable:
        """Return another value whenever the cluster's page would look different."""
        kyma = self.kyma(name)
        things = (kyma, *self._parts(name)) if kyma is not None else ()
        return tuple(each.metadata.resource_version for each in things)

    async def events(self, name: str) -> Sequence[RecordedEvent]:
        """Return Events, the newest first: of a Kyma, and of its parts that are not ready. Raises KubeError."""
        kyma = self.kyma(name)
        if kyma is None:
            return ()
        parts = [each for each in self._parts(name) if each.status.state not in GOOD]
        own = [each for each in parts if each.metadata.namespace == names.KCP_NAMESPACE]  # elsewhere there is no right
        async with self.reading:
            found = await read_events(self.kcp, [kyma, *own[: MAX_SELECTED - 1]])
        return [
            RecordedEvent(each.at, each.count, each.kind, each.reason, each.about, each.note)
            for each in reversed(found[-MAX_EVENTS:])
        ]

    async def last_change(self, name: str) -> Sequence[Moment]:
        """Return what was done in the last change of a cluster, as its objects record it. Raises KubeError."""
        async with self.reading:
            return last_change(moments(await read_documents(self.kcp, name), ()))[-MAX_MOMENTS:]

    def _parts(self, name: str) -> Sequence[Manifest | ModuleConfig | SyncResource]:
        manifests, configs, sync_resources = self._parts_by_kind(name)
        return (*manifests, *configs, *sync_resources)

    def _parts_by_kind(
        self, name: str
    ) -> tuple[tuple[Manifest, ...], tuple[ModuleConfig, ...], tuple[SyncResource, ...]]:
        return (
            tuple(self.manifests.by_index(MANIFESTS_BY_KYMA, name)),
            tuple(filter(self.policies.is_in_place, self.configs.by_index(MODULE_CONFIGS_BY_KYMA, name))),
            tuple(filter(self.policies.is_in_place, self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, name))),
        )

    def _facts(self, kyma: Kyma) -> Facts:
        timing = self.schedule.timing()
        return Facts(timing.now, kyma, self.offers.current(), timing, *self._parts_by_kind(kyma.metadata.name))


def _explanation_of(facts: Facts) -> Explanation:
    chains = explain_all(facts)
    commands = dict.fromkeys(each.next_command for each in chains_not_ready(chains) if each.next_command)
    return Explanation(tree_of(facts, chains), tuple(commands))
