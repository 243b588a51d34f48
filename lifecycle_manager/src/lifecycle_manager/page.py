"""The fleet page of this replica: what it shows, from the caches of the control plane, and where it is served.

It listens on a loopback address only, since tokens come over it: for `kubectl port-forward`, and for an authenticating
proxy in the same Pod.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from http_guard import Bounds, server_for
from kube_runtime import Client, JsonObject, Manager, ObjectKey
from kube_runtime.event_recorder import EVENTS
from kyma_fleet_page import Access, Parts, RecordedEvent, Sources, create_app
from lifecycle_manager.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.module_namespaces import ModuleNamespaces
from lifecycle_manager.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    SYNC_RESOURCES,
)
from lifecycle_manager_api import names

MAX_EVENTS = 50
BOUNDS = Bounds(connections=300)

log = structlog.get_logger("page")


def setup(manager: Manager, kcp: Client, address: tuple[str, int] | None) -> None:
    """Serve the page while the manager runs, if it has an address.

    `kcp` is a client that is not fenced, since every replica serves.
    """
    if address is None:
        return
    kymas = manager.informer(KYMAS)
    manifests = manager.informer(MANIFESTS, indexes=[MANIFESTS_BY_KYMA])
    configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA])
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_KYMA])
    namespaces = ModuleNamespaces.watched_by(manager)
    releases = manager.informer(DATED_RELEASE_METAS)

    def parts(kyma: str) -> Parts:
        holds = namespaces.assignment().holds
        return Parts(
            manifests.by_index(MANIFESTS_BY_KYMA, kyma),
            tuple(filter(holds, configs.by_index(MODULE_CONFIGS_BY_KYMA, kyma))),
            tuple(filter(holds, sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, kyma))),
        )

    sources = Sources(
        kymas=kymas.list,
        kyma=lambda name: kymas.get(ObjectKey(names.KCP_NAMESPACE, name)),
        parts=parts,
        releases=releases.list,
        events=_EventReader(kcp).read,
    )
    app = create_app(sources, Access(kcp, names.KCP_NAMESPACE, manager.clock))

    async def serve() -> None:
        server = server_for(app, *address, bounds=BOUNDS)
        log.info("fleet page is served", address=f"{address[0]}:{address[1]}")
        await server.serve_until_cancelled()

    manager.serves(serve, name="fleet page")


@dataclass(frozen=True, eq=False)
class _EventReader:
    """Reads the Events about a Kyma, the newest first."""

    kcp: Client

    async def read(self, kyma: str) -> Sequence[RecordedEvent]:
        """Return at most MAX_EVENTS of them. Raises KubeError."""
        selector = f"regarding.kind=Kyma,regarding.name={kyma}"
        found = (await self.kcp.list(EVENTS, names.KCP_NAMESPACE, field_selector=selector)).items
        return sorted(map(_recorded, found), key=lambda each: each.when, reverse=True)[:MAX_EVENTS]


def _recorded(event: JsonObject) -> RecordedEvent:
    series = event.get("series") or {}
    when = series.get("lastObservedTime") or event.get("eventTime") or ""
    return RecordedEvent(str(when)[:19], str(event.get("type")), str(event.get("reason")), str(event.get("note")))
