"""Where an event goes: from the runtime that its certificate names to the keys that it concerns.

An event is a hint. It says which object to read, and the read decides. Whatever it names is looked up among the
Kymas of that one runtime, so no cluster can reach into the business of another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from kube_runtime import Informer, ObjectKey, Priority
from lifecycle_manager.controllers import Controllers
from lifecycle_manager.events import Subscriber, UnknownRuntime, VerifiedEvent
from lifecycle_manager.kyma import SKR_KYMA
from lifecycle_manager.module_config import keys_of
from lifecycle_manager.module_installation import concerned_by
from lifecycle_manager.skr import ObjectReference, Trace
from lifecycle_manager.skr.revocation import revoked_before
from lifecycle_manager.skr_webhook import is_canary, manager_of
from lifecycle_manager.telemetry import ChangeLatency
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleTemplate, Watcher, WatchEvent, names

log = structlog.get_logger("events")

CATALOG_KINDS = frozenset({ModuleTemplate.KIND, ModuleReleaseMeta.KIND})
RESYNC = "RESYNC"
HEARTBEAT = "HEARTBEAT"


@dataclass(frozen=True, eq=False)
class ManagerPaths(Mapping[str, Subscriber]):
    """The managers whose path takes events: ours, and each that a Watcher CR names.

    Nobody but us may touch a user's cluster, so whoever an event is for, it is the same thing that reads it there.
    """

    watchers: Informer[Watcher]
    subscriber: Subscriber

    def __getitem__(self, manager: str) -> Subscriber:
        """Return what takes the events of a manager."""
        if manager not in set(self):
            raise KeyError(manager)
        return self.subscriber

    def __iter__(self) -> Iterator[str]:
        """Name the managers."""
        named = (manager_of(watcher) for watcher in self.watchers.cache.list())
        return iter(dict.fromkeys((names.LIFECYCLE_MANAGER, *named)))

    def __len__(self) -> int:
        """Count the managers."""
        return sum(1 for _ in self)


@dataclass(frozen=True, eq=False)
class EventRouter:
    """Puts events into the queues. `kymas` needs the index `runtime`, `manifests` `kyma`."""

    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    controllers: Controllers
    latency: ChangeLatency

    def kymas_of(self, verified: VerifiedEvent) -> Sequence[Kyma]:
        """Return the Kymas of the runtime that sent an event: one, as a rule. Raises UnknownRuntime."""
        kymas = self.kymas.cache.by_index("runtime", verified.runtime_id)
        if not kymas:
            raise UnknownRuntime(verified.runtime_id)
        return kymas

    def take(self, kyma_name: str, verified: VerifiedEvent) -> None:
        """Put what an event concerns of a Kyma into its queues."""
        key, event = ObjectKey(names.KCP_NAMESPACE, kyma_name), verified.event
        kyma = self.kymas.cache.get(key)
        if kyma is None:
            return  # it has gone meanwhile, and nothing of it is looked after any more
        self._note(key, event)
        if is_canary(event):
            log.debug("canary came back", kyma=kyma_name)
            return
        self._route(kyma, key, event)
        if event.operation == HEARTBEAT:
            log.debug("heartbeat", kyma=kyma_name, counters=dict(event.counters))
            return
        log.info(
            "event taken",
            kyma=kyma_name,
            operation=event.operation,
            watched=f"{event.watched_gvk.kind} {event.watched.namespace}/{event.watched.name}",
            event_id=event.id,
            traceparent=event.traceparent,
            observed_at=event.observed_at,
        )
        self.latency.event_taken(event.observed_at)

    def revoked_before(self, runtime_id: str) -> datetime | None:
        """Return before which time a certificate of a runtime must not begin, or None where none was revoked."""
        kymas = self.kymas.cache.by_index("runtime", runtime_id)
        return max(filter(None, map(revoked_before, kymas)), default=None)

    def _note(self, key: ObjectKey, event: WatchEvent) -> None:
        """Note what an event says by its coming: that the Watcher is there, and that changes reach it."""
        reconciler = self.controllers.reconcilers.skr_webhook
        news = reconciler.heard_from(key)
        if is_canary(event):
            news = reconciler.canary_came_back(key) or news
        if news:
            self.controllers.skr_webhook.queue.add(key, Priority.EVENT)

    def _route(self, kyma: Kyma, key: ObjectKey, event: WatchEvent) -> None:
        if event.operation == HEARTBEAT:
            return
        if event.operation == RESYNC:
            self._resync(kyma, key)
        elif event.watched_gvk.group == names.GROUP and event.watched_gvk.kind in CATALOG_KINDS:
            self.controllers.reconcilers.catalog.wake(key, event.watched_gvk.kind)
            self.controllers.catalog.queue.add(key, Priority.EVENT)
        elif (event.watched_gvk.group, event.watched_gvk.kind) == (names.GROUP, Kyma.KIND):
            if (event.watched.namespace, event.watched.name) == (SKR_KYMA.namespace, SKR_KYMA.name):
                self._announce_kyma(key, event)
        else:
            self._announce_module_cr(kyma, key, event)

    def _announce_kyma(self, key: ObjectKey, event: WatchEvent) -> None:
        self.controllers.reconcilers.kyma.announcements.announce(
            key,
            SKR_KYMA,
            operation=event.operation,
            uid=event.uid,
            resource_version=event.resource_version,
            trace=_trace(event),
        )
        self.controllers.kyma.queue.add(key, Priority.EVENT)

    def _announce_module_cr(self, kyma: Kyma, key: ObjectKey, event: WatchEvent) -> None:
        gvk, watched = event.watched_gvk, event.watched
        reconciler = self.controllers.reconcilers.module_config
        module_keys = list(reconciler.keys_for_kind(kyma, gvk.group, gvk.kind))
        for module_key in module_keys:
            remembered = reconciler.announcements.announce(
                module_key,
                ObjectReference(gvk.group, gvk.kind, watched.namespace, watched.name),
                operation=event.operation,
                uid=event.uid,
                resource_version=event.resource_version,
                trace=_trace(event),
            )
            if not remembered:
                self.controllers.reconcilers.module_config.wake(module_key)
            self.controllers.module_config.queue.add(module_key, Priority.EVENT)
        told = self._tell_manifests(kyma, event)
        if not module_keys and not told:
            self.controllers.kyma.queue.add(key, Priority.EVENT)

    def _tell_manifests(self, kyma: Kyma, event: WatchEvent) -> bool:
        """Have the modules looked at whose Module CR or other object it is; return whether there are any."""
        gvk, watched = event.watched_gvk, event.watched
        reference = ObjectReference(gvk.group, gvk.kind, watched.namespace, watched.name)
        told = False
        for manifest in self.manifests.cache.by_index("kyma", kyma.metadata.name):
            concern = concerned_by(manifest, reference, self.controllers.reconcilers.manifest.namespace)
            if concern is None:
                continue
            key, told = ObjectKey(manifest.metadata.namespace, manifest.metadata.name), True
            if concern != "of-its-kind":
                self._announce_to(key, reference, event)
            if concern == "object":
                self.controllers.reconcilers.manifest.wake(key)
            self.controllers.manifest.queue.add(key, Priority.EVENT)
        return told

    def _announce_to(self, manifest: ObjectKey, reference: ObjectReference, event: WatchEvent) -> None:
        remembered = self.controllers.reconcilers.manifest.announcements.announce(
            manifest,
            reference,
            operation=event.operation,
            uid=event.uid,
            resource_version=event.resource_version,
            trace=_trace(event),
        )
        if not remembered:
            self.controllers.reconcilers.manifest.wake(manifest)

    def _resync(self, kyma: Kyma, key: ObjectKey) -> None:
        self.controllers.kyma.queue.add(key, Priority.EVENT)
        for kind in CATALOG_KINDS:
            self.controllers.reconcilers.catalog.wake(key, kind)
        self.controllers.catalog.queue.add(key, Priority.CHANGE)
        for manifest in self.manifests.cache.by_index("kyma", kyma.metadata.name):
            manifest_key = ObjectKey(manifest.metadata.namespace, manifest.metadata.name)
            self.controllers.reconcilers.manifest.wake(manifest_key)
            self.controllers.manifest.queue.add(manifest_key, Priority.CHANGE)
        for module_key in keys_of(kyma):
            self.controllers.reconcilers.module_config.wake(module_key)
            self.controllers.module_config.queue.add(module_key, Priority.EVENT)


def _trace(event: WatchEvent) -> Trace:
    return Trace(event.id, event.traceparent, event.observed_at)
