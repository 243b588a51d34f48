"""The requests for the Watcher in an SKR."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kube_runtime import (
    ApplyResult,
    Client,
    Informer,
    InventoryEntry,
    KubeError,
    KubernetesObject,
    Manager,
    ObjectKey,
    Request,
)
from kube_runtime.tracing import part
from kyma_certs import describe
from lifecycle_manager.contract.former import marks
from lifecycle_manager.contract.offsets import until_check
from lifecycle_manager.contract.signals import WebhookRulesChanged
from lifecycle_manager.contract.watchers import valid_watchers
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.ownership import OwnObjects
from lifecycle_manager.options.watcher import WatcherSettings
from lifecycle_manager.skr.access import SkrAccessError, api_server_ca_in
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr_webhook.canary import EventPath, send_canary
from lifecycle_manager.skr_webhook.documents import INVENTORY, webhook_document, workload_documents
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleReader
from lifecycle_manager.skr_webhook.rules import WebhookComparison, after_apply
from lifecycle_manager.skr_webhook.snapshot import (
    Desired,
    ModuleRuleReader,
    WatcherSnapshot,
    WatcherState,
    records_for,
)
from lifecycle_manager.skr_webhook.timers import Timers
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation
from lifecycle_manager.watcher_certificates.certificates import LeafStore
from lifecycle_manager_api import Kyma, Watcher

FIELD_MANAGER = "lifecycle-manager-skr-webhook"
WEBHOOK_KIND = "ValidatingWebhookConfiguration"
RULES_SECONDS = 2.0
"""How long an API server may take to use the rules of a webhook that were just written."""
OWNER = OwnObjects(FIELD_MANAGER, marks().watcher_field_managers)


@dataclass(frozen=True, eq=False, kw_only=True)
class WatcherSources:
    """What all Watchers are made from. Without `object_rules` no changes of modules' objects are reported."""

    manager: Manager
    connections: Connections
    watchers: Informer[Watcher]
    rules: ModuleRuleReader
    object_rules: ObjectRuleReader | None
    certificates: LeafStore
    cas: CARotation
    settings: WatcherSettings


@dataclass(eq=False, slots=True)
class SkrWatcher:
    """The Watcher in one SKR during one reconcile. `records` are those of its objects, once they are applied."""

    sources: WatcherSources
    request: Request[ObjectKey, WatcherState]
    records: Mapping[str, str] | None = None

    @property
    def state(self) -> WatcherState:
        return self.request.state

    async def skr(self) -> Client:
        """Return the client of the SKR, the same until the reconcile ends. Raises SkrAccessError."""
        return await self.request.shared("skr", lambda: self.sources.connections.to(self.request.key.name))

    async def objects(self) -> SkrObjects:
        self.state.objects = SkrObjects.of(self.state.objects, await self.skr(), owner=OWNER)
        return self.state.objects

    async def desired(self, kyma: Kyma, *, with_webhook: bool) -> Desired:
        """Have a certificate, and find out which objects belong into the SKR.

        Raises KubeError, SkrAccessError, or why there is no certificate.
        """
        skr, name, sources, state = await self.skr(), kyma.metadata.name, self.sources, self.state
        try:
            pair = await sources.certificates.ensure(kyma, sources.cas.current, state.certificate)
        finally:
            state.renewal_overdue = sources.certificates.is_overdue(kyma, sources.cas.current)
        cas, watchers = sources.cas.current, valid_watchers(sources.watchers.list())
        api_server_ca = api_server_ca_in(sources.connections.access_secret(name))
        rules = await sources.rules.read(kyma, skr)
        documents = [*workload_documents(sources.settings, pair, cas.trusted, api_server_ca)]
        if with_webhook:
            reader = sources.object_rules
            reported = await reader.read(name, skr) if reader is not None else None
            documents.append(webhook_document(watchers, rules.rules, cas.trusted, object_rules=reported))
        return Desired(
            tuple(KubernetesObject.of(each, index) for index, each in enumerate(documents)),
            records_for(documents, watchers, cas),
            rules,
            with_webhook,
            describe(pair.certificate_pem).not_after if state.renewal_overdue else None,
        )

    async def apply(self, seen: WatcherSnapshot, desired: Desired, how: WebhookComparison) -> WatcherSnapshot:
        """Apply the objects; after the first installation, delete those of the former version. Raises KubeError."""
        kyma, manager, objects = seen.kyma, self.sources.manager, await self.objects()
        with part("ApplyObjects"):
            applied = await objects.apply(desired.objects, INVENTORY, recheck=how.recheck, new=how.new)
        self._note_rules(applied)
        applied.raise_first_failure()
        existed = any(each.action in {"changed", "unchanged"} for each in applied.outcomes)
        if existed and not kyma.status.records.watcher:  # perhaps the Watcher of a former version
            await objects.applier.delete(marks().watcher_objects)
        self.records = desired.records
        seen = self.later(seen)
        again = until_check(kyma.metadata.name, seen.times.interval, now=manager.clock.now())
        return self.later(seen, after_apply(seen, desired, how, applied, again=again))

    def _note_rules(self, applied: ApplyResult) -> None:
        """Publish that the rules of the webhook changed, whatever became of the other objects.

        A webhook that failed may be stored nevertheless: then it is found unchanged later.
        """
        for each in (each for each in applied.outcomes if each.entry.kind == WEBHOOK_KIND):
            if each.error is not None:
                self.state.rules_unknown = True
            elif each.action in {"created", "changed"} or self.state.rules_unknown:
                self.state.rules_unknown = False
                changed = WebhookRulesChanged(self.request.key.name)
                asyncio.get_running_loop().call_later(RULES_SECONDS, self.sources.manager.publish, changed)

    async def send_canary(self, seen: WatcherSnapshot, path: EventPath) -> WatcherSnapshot:
        """Test the event path. Raises KubeError."""
        write, sending = path.is_write_due(seen.now), path.sending(seen.now)
        # A process that fails from here on knows that a canary may be under way.
        self.state.timers = seen.timers.with_path(sending)
        try:
            await send_canary(await self.skr(), self.request.key.name, seen.now, write=write)
        except (KubeError, SkrAccessError):
            self.state.timers = seen.timers.with_path(sending.refused())
            raise
        seen = self.later(seen)
        return self.later(seen, seen.timers.with_path(sending.sent(seen.now, write=write)))

    async def delete(self) -> tuple[InventoryEntry, ...]:
        """Delete the Watcher's objects, and those of the former version; return what is left. Raises KubeError."""
        removed = await (await self.objects()).applier.delete((*INVENTORY, *marks().watcher_objects))
        removed.raise_first_failure()
        return removed.inventory

    def later(self, seen: WatcherSnapshot, timers: Timers | None = None) -> WatcherSnapshot:
        """Return what is known by now, with other timers unless these are None, which are remembered."""
        self.state.timers = timers or seen.timers
        return replace(seen, timers=self.state.timers, now=self.sources.manager.clock.monotonic())
