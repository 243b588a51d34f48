"""Carries one step for a Watcher out, and returns the snapshot with its outcome.

Events may arrive during each await and change the timers, so the snapshot takes them from the state anew after each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import structlog

from kube_runtime import (
    Applier,
    ApplyResult,
    Client,
    Informer,
    Invalid,
    JsonObject,
    KubeError,
    KubernetesObject,
    Manager,
)
from kyma_certs import KeyPair, describe, renewal_due
from lifecycle_manager.contract.conditions import WEBHOOK, write_condition
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import WebhookRulesChanged
from lifecycle_manager.skr import Connections
from lifecycle_manager.skr_webhook.ca_rotation import CARotation
from lifecycle_manager.skr_webhook.canary import send_canary
from lifecycle_manager.skr_webhook.certificates import CertificateMemory
from lifecycle_manager.skr_webhook.documents import INVENTORY, Document, ObjectRules, WatcherDeployment
from lifecycle_manager.skr_webhook.issued_certificates import LeafStore
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleMemory, ObjectRuleReader
from lifecycle_manager.skr_webhook.plan import (
    ApplyObjects,
    Done,
    EnsureCertificate,
    FindDesired,
    RemoveObjects,
    SendCanary,
    Step,
)
from lifecycle_manager.skr_webhook.snapshot import (
    ModuleRuleReader,
    NoCertificate,
    WatcherSnapshot,
    desired_objects,
    records_of,
)
from lifecycle_manager.skr_webhook.status import (
    NO_CERTIFICATE,
    Status,
    event_type,
    is_of_former_version,
    reported_fault,
)
from lifecycle_manager.skr_webhook.timers import Timers
from lifecycle_manager.takeover import former
from lifecycle_manager_api import Kyma, Watcher, names

FIELD_MANAGER = "lifecycle-manager-skr-webhook"
REPAIR_FIELD_MANAGER = "lifecycle-manager-skr-webhook-repair"
WEBHOOK_KIND = "ValidatingWebhookConfiguration"
ALL_OBJECTS = (*INVENTORY, *former.WATCHER_OBJECTS)

log = structlog.get_logger("skr_webhook")


@dataclass(eq=False, slots=True)
class WatcherState:
    """What a process remembers of one Watcher, lost with the process or when another replica gets the Kyma.

    `applied` are the records of objects that were applied, until they are in the Kyma's status.
    """

    timers: Timers
    applied: Mapping[str, str] | None = None
    certificate: CertificateMemory = field(default_factory=CertificateMemory)
    renewal_overdue: bool = False
    applier: tuple[Client, Applier] | None = None
    object_rules: ObjectRuleMemory = field(default_factory=ObjectRuleMemory)


@dataclass(frozen=True, eq=False)
class WatcherSteps:
    """Carries steps out. `renewal_alarm`: how long before its end a certificate should have been renewed.

    Without `object_rules` no changes of modules' objects are reported.
    """

    manager: Manager
    connections: Connections
    kymas: Informer[Kyma]
    watchers: Informer[Watcher]
    rules: ModuleRuleReader
    object_rules: ObjectRuleReader | None
    certificates: LeafStore
    cas: CARotation
    deployment: WatcherDeployment
    renewal_alarm: timedelta

    async def apply(self, seen: WatcherSnapshot, step: Step, *, state: WatcherState, skr: Client) -> WatcherSnapshot:
        """Carry a step out. Raises KubeError or SkrAccessError."""
        found: dict[str, Any] = {}
        match step:
            case EnsureCertificate():
                found["certificate"] = certificate = await self._ensure_certificate(seen.kyma, state)
                if state.renewal_overdue and isinstance(certificate, KeyPair):
                    found["overdue_until"] = describe(certificate.certificate_pem).not_after
            case FindDesired(with_webhook) if isinstance(seen.certificate, KeyPair):
                found["desired"] = desired_objects(
                    self.deployment,
                    seen.certificate,
                    self.cas.current,
                    api_server_ca=self.connections.api_server_ca(seen.kyma.metadata.name),
                    watchers=self.watchers.list(),
                    rules=await self.rules.read(seen.kyma, skr),
                    object_rules=await self._object_rules(seen.kyma, skr, state) if with_webhook else None,
                    with_webhook=with_webhook,
                )
            case ApplyObjects():
                await self._apply_objects(seen, step, state=state, skr=skr)
                found["applied"] = True
            case SendCanary():
                await self._send_canary(step, state=state, skr=skr)
                found["canary_sent"] = True
            case RemoveObjects():
                found["remaining"] = (await applier_of(state, skr).delete(ALL_OBJECTS)).inventory
            case FindDesired() | Done():
                raise ValueError(f"{type(step).__name__} can't be carried out now")
        return replace(seen, now=self.manager.clock.monotonic(), timers=state.timers, **found)

    async def report(self, kyma: Kyma, status: Status, state: WatcherState | None = None) -> None:
        """Write the condition and the records where they have changed. Raises KubeError.

        Where a fault begins or ends, that is an Event, too.
        """
        reported = reported_fault(kyma, status)
        records = state.applied if state is not None else None
        written = await write_condition(
            self.manager.client,
            kyma,
            WEBHOOK,
            reported or status,
            now=self.manager.clock.now(),
            field_manager=FIELD_MANAGER,
            records=records_of(kyma) if records is None else records,
        )
        if state is not None:
            state.applied = None
        if written is None:
            return
        self.kymas.wrote(written)
        if reported is None and (kind := event_type(kyma, status)):
            self.manager.events.record(KYMAS, kyma, status.reason, status.message, type=kind, action="Watch")

    async def _ensure_certificate(self, kyma: Kyma, state: WatcherState) -> KeyPair | NoCertificate:
        try:
            certificate = await self.certificates.ensure(kyma, self.cas.current, state.certificate)
        except tuple(NO_CERTIFICATE) as error:
            reason, retry_after = NO_CERTIFICATE[type(error)]
            return NoCertificate(reason, str(error), retry_after)
        state.renewal_overdue = renewal_due(
            certificate.certificate_pem, renew_before=self.renewal_alarm, now=self.manager.clock.now()
        )
        return certificate

    async def _object_rules(self, kyma: Kyma, skr: Client, state: WatcherState) -> ObjectRules | None:
        reader = self.object_rules
        return await reader.read(kyma.metadata.name, skr, state.object_rules) if reader is not None else None

    async def _apply_objects(
        self, seen: WatcherSnapshot, step: ApplyObjects, *, state: WatcherState, skr: Client
    ) -> None:
        # The Watcher of a former version changes what the apply finds, so its objects are read first.
        is_new = not any(records_of(seen.kyma).values()) and not is_of_former_version(seen.kyma)
        applied = await apply_over_changes(
            skr, applier_of(state, skr), step.desired.documents, recheck=step.recheck, is_new=is_new
        )
        applied.raise_first_failure()
        if not seen.kyma.status.records.watcher and _found_some(applied):
            await applier_of(state, skr).delete(former.WATCHER_OBJECTS)
        now = self.manager.clock.monotonic()
        if step.recheck or is_new:
            drifted = step.recorded and any(outcome.action != "unchanged" for outcome in applied.outcomes)
            state.timers = state.timers.repaired(seen.times, now=now, drifted=drifted)
        if any(each.entry.kind == WEBHOOK_KIND and each.action in {"created", "changed"} for each in applied.outcomes):
            self.manager.publish(WebhookRulesChanged(seen.kyma.metadata.name))
        state.applied = step.desired.records
        if not step.recorded and not step.desired.with_webhook:
            state.timers = replace(state.timers, since=now)

    async def _send_canary(self, step: SendCanary, *, state: WatcherState, skr: Client) -> None:
        state.timers = replace(state.timers, path=step.path)
        try:
            await send_canary(skr, write=step.write)
        except Exception:
            state.timers = replace(state.timers, path=(state.timers.path or step.path).refused())
            raise
        path = (state.timers.path or step.path).sent(self.manager.clock.monotonic(), write=step.write)
        state.timers = replace(state.timers, path=path)


def applier_of(state: WatcherState, skr: Client) -> Applier:
    """Return the applier for a client: a new one where the client is new."""
    if state.applier is None or state.applier[0] is not skr:
        labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        applier = Applier(
            skr,
            field_manager=FIELD_MANAGER,
            labels=labels,
            owns=lambda _, live: is_labelled(live, labels) or former.is_marked(live),
            former_managers=former.WATCHER_FIELD_MANAGERS,
        )
        state.applier = (skr, applier)
    return state.applier[1]


def is_labelled(live: JsonObject, labels: Mapping[str, str]) -> bool:
    """Tell whether an object has labels."""
    return labels.items() <= (live["metadata"].get("labels") or {}).items()


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


def _found_some(applied: ApplyResult) -> bool:
    """Tell whether objects existed before an apply: the Watcher of a former version may be there."""
    return any(each.action in {"changed", "unchanged"} for each in applied.outcomes)


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
