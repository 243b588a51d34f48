"""Carries one step for a Watcher out, and reports the end of its reconcile."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import structlog

from kube_runtime import (
    Applier,
    ApplyResult,
    Client,
    Informer,
    Invalid,
    KubeError,
    KubernetesObject,
    Manager,
    ObjectKey,
    Request,
    Result,
)
from kyma_certs import describe, renewal_due
from lifecycle_manager.contract.conditions import WEBHOOK, ConditionContent, write_condition
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import WebhookRulesChanged
from lifecycle_manager.contract.watchers import valid_watchers
from lifecycle_manager.skr import Connections
from lifecycle_manager.skr.failure import failed
from lifecycle_manager.skr_webhook import plan
from lifecycle_manager.skr_webhook.canary import send_canary
from lifecycle_manager.skr_webhook.documents import (
    INVENTORY,
    Document,
    WatcherDeployment,
    webhook_document,
    workload_documents,
)
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleReader
from lifecycle_manager.skr_webhook.snapshot import (
    Desired,
    ModuleRuleReader,
    WatcherSnapshot,
    WatcherState,
    records_for,
    records_of,
)
from lifecycle_manager.skr_webhook.status import (
    event_type,
    is_of_former_version,
    reported_fault,
)
from lifecycle_manager.takeover import former
from lifecycle_manager.watcher_certificates import CARotation, LeafStore
from lifecycle_manager_api import Kyma, Watcher, names

FIELD_MANAGER = "lifecycle-manager-skr-webhook"
REPAIR_FIELD_MANAGER = "lifecycle-manager-skr-webhook-repair"
WEBHOOK_KIND = "ValidatingWebhookConfiguration"
RULES_SECONDS = 2.0
"""How long an API server may take to use the rules of a webhook that were just written."""
LABELS = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
ALL_OBJECTS = (*INVENTORY, *former.WATCHER_OBJECTS)

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
    deployment: WatcherDeployment

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
                seen = await self._apply_objects(seen, step, applier=applier_of(state, skr), skr=skr)
            case plan.SendCanary(path, write):
                # A process that fails from here on knows that a canary may be under way.
                state.timers = replace(seen.timers, path=path)
                await send_canary(skr, write=write)
                path = path.sent(self.manager.clock.monotonic(), write=write)
                seen = replace(seen, canary_sent=True, timers=replace(seen.timers, path=path))
            case plan.RemoveObjects():
                seen = replace(seen, remaining=(await applier_of(state, skr).delete(ALL_OBJECTS)).inventory)
            case _:
                assert_never(step)
        return replace(seen, now=self.manager.clock.monotonic())

    async def _ensure_certificate(self, seen: WatcherSnapshot, state: WatcherState) -> WatcherSnapshot:
        pair = await self.certificates.ensure(seen.kyma, self.cas.current, state.certificate)
        alarm, now = self.certificates.rules.renewal_alarm, self.manager.clock.now()
        state.renewal_overdue = renewal_due(pair.certificate_pem, renew_before=alarm, now=now)
        overdue_until = describe(pair.certificate_pem).not_after if state.renewal_overdue else None
        return replace(seen, certificate=pair, overdue_until=overdue_until)

    async def _find_desired(
        self, seen: WatcherSnapshot, step: plan.FindDesired, *, state: WatcherState, skr: Client
    ) -> Desired:
        name, cas, watchers = seen.kyma.metadata.name, self.cas.current, valid_watchers(self.watchers.list())
        api_server_ca = self.connections.api_server_ca(name)
        rules = await self.rules.read(seen.kyma, skr)
        documents = [*workload_documents(self.deployment, step.certificate, cas.trusted, api_server_ca)]
        if step.with_webhook:
            reader = self.object_rules
            reported = await reader.read(name, skr, state.object_rules) if reader is not None else None
            documents.append(webhook_document(watchers, rules.rules, cas.trusted, object_rules=reported))
        return Desired(tuple(documents), records_for(documents, watchers, cas), rules, step.with_webhook)

    async def _apply_objects(
        self, seen: WatcherSnapshot, step: plan.ApplyWatcher, *, applier: Applier, skr: Client
    ) -> WatcherSnapshot:
        # The Watcher of a former version changes what the apply finds, so its objects are read first.
        is_new = not any(records_of(seen.kyma).values()) and not is_of_former_version(seen.kyma)
        documents = step.desired.documents
        applied = await apply_over_changes(skr, applier, documents, recheck=step.recheck, is_new=is_new)
        applied.raise_first_failure()
        existed = any(each.action in {"changed", "unchanged"} for each in applied.outcomes)
        if existed and not seen.kyma.status.records.watcher:  # perhaps the Watcher of a former version
            await applier.delete(former.WATCHER_OBJECTS)
        if any(each.entry.kind == WEBHOOK_KIND and each.action in {"created", "changed"} for each in applied.outcomes):
            changed = WebhookRulesChanged(seen.kyma.metadata.name)
            asyncio.get_running_loop().call_later(RULES_SECONDS, self.manager.publish, changed)
        now, timers = self.manager.clock.monotonic(), seen.timers
        if step.recheck or is_new:
            drifted = step.recorded and any(outcome.action != "unchanged" for outcome in applied.outcomes)
            timers = timers.repaired(seen.times, now=now, drifted=drifted)
        if not step.recorded and not step.desired.with_webhook:
            timers = replace(timers, since=now)
        return replace(seen, applied=True, timers=timers)


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
            records = seen.desired.records if seen.applied and seen.desired is not None else None
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


def applier_of(state: WatcherState, skr: Client) -> Applier:
    """Return the applier for a client, which knows what it applied before: a new one where the client is new."""
    if state.applier is None or state.applier[0] is not skr:
        applier = Applier(
            skr,
            field_manager=FIELD_MANAGER,
            labels=LABELS,
            owns=lambda _, live: (
                LABELS.items() <= (live["metadata"].get("labels") or {}).items() or former.is_marked(live)
            ),
            former_managers=former.WATCHER_FIELD_MANAGERS,
        )
        state.applier = (skr, applier)
    return state.applier[1]


async def apply_over_changes(
    skr: Client, applier: Applier, documents: Sequence[Document], *, recheck: bool = True, is_new: bool = False
) -> ApplyResult:
    """Apply objects that belong to LM alone, over the changes of others. The outcomes have the errors.

    Without `recheck` objects that were applied before are not read. `is_new`: none was, so none is.

    Apply keeps fields that others added, and where these conflict it is refused for ever: a port whose number was
    edited would be there twice, with one name. So a refused object is overwritten, and applied once more.
    """
    objects = [KubernetesObject.of(document, index) for index, document in enumerate(documents)]
    new = INVENTORY if is_new else ()
    applied = await applier.apply(objects, INVENTORY, new=new, prune=False, recheck=recheck)
    refused = [outcome.index for outcome in applied.failed if isinstance(outcome.cause, Invalid)]
    overwritten = [index for index in refused if index is not None and await _overwrite(skr, documents[index])]
    return await applier.apply(objects, INVENTORY, prune=False) if overwritten else applied


async def _overwrite(skr: Client, document: Document) -> bool:
    """Overwrite the content of an object; return whether that was possible."""
    metadata = document["metadata"]
    content = {field: value for field, value in document.items() if field not in {"apiVersion", "kind", "metadata"}}
    try:
        resource = await skr.mapper.resource(document["apiVersion"], document["kind"])
        await skr.merge_patch(
            resource, metadata["name"], content, metadata.get("namespace"), field_manager=REPAIR_FIELD_MANAGER
        )
    except KubeError as error:
        log.warning("changed object can't be repaired", kind=document["kind"], name=metadata["name"], error=str(error))
        return False
    return True
