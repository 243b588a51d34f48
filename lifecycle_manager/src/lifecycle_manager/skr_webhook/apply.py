"""Carries one step for a Watcher out, and reports the end of its reconcile."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import structlog

from kube_runtime import (
    Client,
    Informer,
    KubernetesObject,
    Manager,
    ObjectKey,
    Request,
    Result,
)
from kyma_certs import describe
from lifecycle_manager.contract.conditions import WEBHOOK, ConditionContent, write_condition
from lifecycle_manager.contract.former import marks
from lifecycle_manager.contract.offsets import until_check
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import WebhookRulesChanged
from lifecycle_manager.contract.watchers import valid_watchers
from lifecycle_manager.object_set import SkrObjects
from lifecycle_manager.object_set.ownership import OwnObjects
from lifecycle_manager.skr import Connections
from lifecycle_manager.skr.failure import failed
from lifecycle_manager.skr_webhook import plan
from lifecycle_manager.skr_webhook.canary import send_canary
from lifecycle_manager.skr_webhook.documents import webhook_document, workload_documents
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleReader
from lifecycle_manager.skr_webhook.settings import WatcherSettings
from lifecycle_manager.skr_webhook.snapshot import (
    Desired,
    ModuleRuleReader,
    WatcherSnapshot,
    WatcherState,
    records_for,
    records_of,
)
from lifecycle_manager.skr_webhook.status import event_type, reported_fault
from lifecycle_manager.watcher_certificates import CARotation, LeafStore
from lifecycle_manager_api import Kyma, Watcher

FIELD_MANAGER = "lifecycle-manager-skr-webhook"
WEBHOOK_KIND = "ValidatingWebhookConfiguration"
RULES_SECONDS = 2.0
"""How long an API server may take to use the rules of a webhook that were just written."""
OWNER = OwnObjects(FIELD_MANAGER, marks().watcher_field_managers)

log = structlog.get_logger("skr_webhook")


@dataclass(frozen=True, eq=False)
class WatcherActions:
    """Carries steps out. Without `object_rules` no changes of modules' objects are reported."""

    manager: Manager
    connections: Connections
    watchers: Informer[Watcher]
    rules: ModuleRuleReader
    object_rules: ObjectRuleReader | None
    certificates: LeafStore
    cas: CARotation
    settings: WatcherSettings

    async def apply(
        self, request: Request[ObjectKey, WatcherState], seen: WatcherSnapshot, step: plan.WatcherStep
    ) -> WatcherSnapshot:
        """Carry one step out. Raises KubeError, SkrAccessError, or why there is no certificate."""
        skr, state = await request.shared("skr", lambda: self.connections.to(request.key.name)), request.state
        match step:
            case plan.EnsureCertificate():
                seen = await self._ensure_certificate(seen, state)
            case plan.FindDesired():
                seen = replace(seen, desired=await self._find_desired(seen, step, state=state, skr=skr))
            case plan.ApplyWatcher():
                seen = await self._apply_watcher(seen, step, objects_of(state, skr))
            case plan.SendCanary(path, write):
                # A process that fails from here on knows that a canary may be under way.
                state.timers = seen.timers.with_path(path)
                await send_canary(skr, request.key.name, self.manager.clock.monotonic(), write=write)
                path = path.sent(self.manager.clock.monotonic(), write=write)
                seen = replace(seen, canary_sent=True, timers=seen.timers.with_path(path))
            case plan.DeleteWatcher(inventory):
                seen = replace(seen, remaining=(await objects_of(state, skr).applier.delete(inventory)).inventory)
            case _:
                assert_never(step)
        return replace(seen, now=self.manager.clock.monotonic())

    async def _ensure_certificate(self, seen: WatcherSnapshot, state: WatcherState) -> WatcherSnapshot:
        try:
            pair = await self.certificates.ensure(seen.kyma, self.cas.current, state.certificate)
        finally:
            state.renewal_overdue = self.certificates.is_overdue(seen.kyma, self.cas.current)
        overdue_until = describe(pair.certificate_pem).not_after if state.renewal_overdue else None
        return replace(seen, certificate=pair, overdue_until=overdue_until)

    async def _find_desired(
        self, seen: WatcherSnapshot, step: plan.FindDesired, *, state: WatcherState, skr: Client
    ) -> Desired:
        name, cas, watchers = seen.kyma.metadata.name, self.cas.current, valid_watchers(self.watchers.list())
        api_server_ca = self.connections.api_server_ca(name)
        rules = await self.rules.read(seen.kyma, skr)
        documents = [*workload_documents(self.settings, step.certificate, cas.trusted, api_server_ca)]
        if step.with_webhook:
            reader = self.object_rules
            reported = await reader.read(name, skr, state.object_rules) if reader is not None else None
            documents.append(webhook_document(watchers, rules.rules, cas.trusted, object_rules=reported))
        objects = tuple(KubernetesObject.of(each, index) for index, each in enumerate(documents))
        return Desired(objects, records_for(documents, watchers, cas), rules, step.with_webhook)

    async def _apply_watcher(
        self, seen: WatcherSnapshot, step: plan.ApplyWatcher, objects: SkrObjects
    ) -> WatcherSnapshot:
        applied = await objects.apply(step.objects, step.inventory, recheck=step.recheck, new=step.new)
        applied.raise_first_failure()
        existed = any(each.action in {"changed", "unchanged"} for each in applied.outcomes)
        if existed and not seen.kyma.status.records.watcher:  # perhaps the Watcher of a former version
            await objects.applier.delete(marks().watcher_objects)
        if any(each.entry.kind == WEBHOOK_KIND and each.action in {"created", "changed"} for each in applied.outcomes):
            changed = WebhookRulesChanged(seen.kyma.metadata.name)
            asyncio.get_running_loop().call_later(RULES_SECONDS, self.manager.publish, changed)
        now, timers = self.manager.clock.monotonic(), seen.timers
        recorded = seen.desired is not None and plan.is_recorded(seen.kyma, seen.desired)
        if step.recheck or step.new:
            drifted = recorded and any(outcome.action != "unchanged" for outcome in applied.outcomes)
            again = until_check(seen.kyma.metadata.name, seen.times.interval, now=self.manager.clock.now())
            timers = timers.repaired(seen.times, now=now, again=again, drifted=drifted)
        if not recorded and seen.desired is not None and not seen.desired.with_webhook:
            timers = timers.restarted(now)
        return replace(seen, applied=applied, timers=timers)


@dataclass(frozen=True, eq=False)
class WatcherReports:
    """Writes the condition and the records to the Kyma in KCP."""

    manager: Manager
    kymas: Informer[Kyma]

    async def finish(
        self, request: Request[ObjectKey, WatcherState], seen: WatcherSnapshot, end: plan.WatcherDone
    ) -> Result:
        request.state.timers = end.timers
        if end.condition is not None:
            records = seen.desired.records if seen.applied is not None and seen.desired is not None else None
            await self._write(self.kymas.get(request.key) or seen.kyma, end.condition, records)
        return Result(end.requeue_after)

    async def unforeseen(self, key: ObjectKey, error: Exception) -> None:
        kyma = self.kymas.get(key)
        if kyma is not None:
            await self._write(kyma, failed(error))

    async def _write(self, kyma: Kyma, condition: ConditionContent, records: Mapping[str, str] | None = None) -> None:
        """Write what has changed; where a fault begins or ends, that is an Event, too. Raises KubeError."""
        reported = reported_fault(kyma, condition)
        written = await write_condition(
            self.manager.client,
            kyma,
            WEBHOOK,
            reported or condition,
            now=self.manager.clock.now(),
            field_manager=FIELD_MANAGER,
            records=records_of(kyma) if records is None else records,
        )
        if written is None:
            return
        self.kymas.wrote(written)
        if reported is None and (kind := event_type(kyma, condition)):
            self.manager.events.record(KYMAS, kyma, condition.reason, condition.message, type=kind, action="Watch")


def objects_of(state: WatcherState, skr: Client) -> SkrObjects:
    state.objects = SkrObjects.of(state.objects, skr, owner=OWNER)
    return state.objects
