"""Brings the Watcher and its webhook to the SKR of one Kyma, and takes them away with it."""

import hashlib
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import msgspec
import structlog

from kube_runtime import (
    Applier,
    Client,
    EventRecorder,
    Informer,
    KindUnknown,
    KubeError,
    ObjectKey,
    Result,
)
from kyma_certs import Authorities, KeyPair, NameRefused, renewal_due
from lifecycle_manager.kcp_writes import patch_metadata
from lifecycle_manager.kyma_conditions import (
    BROKEN_AFTER_WORKING as WORKED_BEFORE,
)
from lifecycle_manager.kyma_conditions import (
    EVENT_PATH_BROKEN as BROKEN,
)
from lifecycle_manager.kyma_conditions import (
    EVENT_PATH_FAULTS as FAULTS,
)
from lifecycle_manager.kyma_conditions import REMOVED, is_introduced, write_condition
from lifecycle_manager.kyma_conditions import (
    WATCHER_NEVER_HEARD as NEVER_HEARD,
)
from lifecycle_manager.kyma_conditions import (
    WATCHER_SILENT as SILENT,
)
from lifecycle_manager.kyma_conditions import (
    WEBHOOK as CONDITION,
)
from lifecycle_manager.kyma_conditions import (
    is_event_path_faulty as is_faulty,
)
from lifecycle_manager.kyma_conditions import modules_removed as modules_left
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind, ModuleKinds, TemplateUnreadable
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.skr import AccessSecretMissing, Connections, SkrAccessError, failure_of
from lifecycle_manager.skr_webhook.canary import Canaries
from lifecycle_manager.skr_webhook.cert_manager import CertificatePending
from lifecycle_manager.skr_webhook.certificates import (
    CertificateContended,
    CertificatesRevoked,
    LeafStore,
    NameReserved,
)
from lifecycle_manager.skr_webhook.documents import (
    INVENTORY,
    Document,
    ModuleRule,
    WatcherSettings,
    webhook_document,
    workload_documents,
)
from lifecycle_manager.skr_webhook.records import TRUST_RECORD, WATCHER_RECORD
from lifecycle_manager.skr_webhook.repair import apply_whole
from lifecycle_manager.skr_webhook.watcher_status import WATCHERS_MARK, watchers_digest, watchers_in_force
from lifecycle_manager_api import ConditionStatus, Kyma, ModuleTemplate, TrackingObject, Watcher, names
from lifecycle_manager_api.conditions import find

FIELD_MANAGER = "lifecycle-manager-skr-webhook"
log = structlog.get_logger("skr_webhook")

STARTING = "WatcherStarting"
NO_CERTIFICATE: Mapping[type[Exception], tuple[str, float]] = {
    CertificatePending: ("CertificatePending", 2.0),
    CertificatesRevoked: ("CertificatesRevoked", 2.0),
    CertificateContended: ("CertificateContended", 1.0),
    NameReserved: ("NameReserved", 30.0),
    NameRefused: ("NameRefused", 30.0),
}
"""Why a Watcher has no certificate, as the condition says it, and after how many seconds to try again."""

UNKNOWN_KIND_SECONDS = 2.0
WEBHOOK = "ValidatingWebhookConfiguration"
REMOVAL_SECONDS = 2.0
SILENT_SECONDS = 30.0
"""How often the Watcher's objects in a cluster are put right while nothing is heard from there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one reconcile, as the condition shows it."""

    status: ConditionStatus
    reason: str
    message: str
    requeue_after: float | None = None


@dataclass(eq=False)
class SkrWebhookReconciler:
    """Keeps one cluster's Watcher in place. The key is that of the Kyma in KCP."""

    kcp: Client
    connections: Connections
    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    watchers: Informer[Watcher]
    kinds: ModuleKinds
    certificates: LeafStore
    authorities: Callable[[], Authorities]
    settings: WatcherSettings
    clock: Callable[[], datetime]
    events: EventRecorder
    canaries: Canaries
    not_renewed: set[str]
    """The names of the Kymas whose certificate should have been renewed, for whoever tells of them."""
    renewal_alarm: timedelta = timedelta(days=59)
    interval_seconds: float = 30.0
    silence_seconds: float = 55.0
    on_other_rules: Callable[[ObjectKey], None] = lambda _: None
    """Told of the Kymas whose cluster asks about other kinds than before from now on."""
    _began: float = field(default_factory=time.monotonic, init=False)
    _since: dict[ObjectKey, float] = field(default_factory=dict, init=False)
    _heard: dict[ObjectKey, float] = field(default_factory=dict, init=False)
    _appliers: dict[ObjectKey, tuple[Client, Applier]] = field(default_factory=dict, init=False)
    _due: dict[ObjectKey, float] = field(default_factory=dict, init=False)

    def heard_from(self, key: ObjectKey) -> bool:
        """Note that the Watcher of this Kyma has sent a verified event. Returns whether that is news."""
        news = key not in self._heard or self._silent_for(key) > self.silence_seconds
        self._heard[key] = time.monotonic()
        return news

    def canary_came_back(self, key: ObjectKey) -> bool:
        """Note that a change of our own in this Kyma's cluster came back as an event. Returns whether that is news."""
        return self.canaries.came_back(key)

    def wake(self, key: ObjectKey) -> None:
        """Have the next reconcile look at what is in the cluster, whatever was noted: it may be gone."""
        self._due[key] = 0.0

    def forget(self, key: ObjectKey) -> None:
        """Drop what this process remembers of it: it is gone, or another process has looked after it meanwhile."""
        self._heard.pop(key, None)
        self._appliers.pop(key, None)
        self._due.pop(key, None)
        self.canaries.forget(key)
        self._since[key] = time.monotonic()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this cluster's Watcher needs next. Raises KubeError or SkrAccessError after the condition says so."""
        kyma = self.kymas.cache.get(key)
        if kyma is None:
            self.forget(key)
            self._since.pop(key, None)
            self.not_renewed.discard(key.name)
            return Result()
        if names.KYMA_FINALIZER not in kyma.metadata.finalizers or not is_introduced(kyma):
            return Result()  # the Kyma comes first; its change wakes this key
        deleting = kyma.metadata.being_deleted
        if not deleting and kyma.metadata.labels.get(names.SKIP_RECONCILIATION) == "true":
            return Result()  # hands off; its change wakes this key
        if deleting and not modules_left(kyma):
            return Result()  # events are wanted until the last module has gone; its change wakes this key
        try:
            async with self.connections.to(kyma.metadata.name) as skr:
                outcome = await (self._remove(key, skr) if deleting else self._install(key, kyma, skr))
        except (KubeError, SkrAccessError) as error:
            if deleting and isinstance(error, AccessSecretMissing):
                return Result()
            failure = failure_of(error)
            await self._report(kyma, Outcome("False", failure.reason, failure.message))
            raise
        await self._report(kyma, outcome)
        return Result(requeue_after=outcome.requeue_after)

    async def _install(self, key: ObjectKey, kyma: Kyma, skr: Client) -> Outcome:
        if find(kyma.status.conditions, CONDITION) is None:  # said first, so that whoever dies leaves nothing unknown
            await self._report(kyma, Outcome("False", "Installing", "the Watcher is being brought to the cluster"))
        authorities = self.authorities()
        try:
            certificate = await self.certificates.ensure(kyma, authorities)
        except tuple(NO_CERTIFICATE) as error:
            reason, again = NO_CERTIFICATE[type(error)]
            return Outcome("False", reason, str(error), again)
        self._alarm(kyma, certificate)
        silent_for = self._silent_for(key)
        was_silent = key not in self._heard and _reason_of(kyma) == SILENT  # a former process found so
        silent = was_silent or silent_for > self.silence_seconds
        if silent and _reason_of(kyma) not in {SILENT, STARTING, NEVER_HEARD}:
            self._due[key] = 0.0  # what is in the cluster may be why
        trust = authorities.trusted
        documents = [*workload_documents(self.settings, certificate, trust)]
        ready = key in self._heard or _was_ready(kyma)
        rules, unknown = await self._module_rules(kyma, skr)
        if ready:
            documents.append(webhook_document(watchers_in_force(self.watchers.cache.list()), rules, trust))
        anew = await self._keep_in_place(key, kyma, documents, authorities.fingerprint, skr)
        if not ready:
            return self._not_heard_yet(key, kyma, anew=anew)
        if silent:
            self.canaries.forget(key)  # a trial can't be answered now, and that is told already
            message = f"nothing was heard from the Watcher for {silent_for:.0f} s; changes are found at intervals"
            self._due[key] = min(self._due.get(key, math.inf), time.monotonic() + SILENT_SECONDS)
            return Outcome("False", SILENT, message, min(self.interval_seconds, SILENT_SECONDS))
        if _reason_of(kyma) == BROKEN:
            self.canaries.take_over_broken(key)
        await self.canaries.try_when_due(key, skr)
        if broken_for := self.canaries.broken_for(key):
            self._due[key] = 0.0  # what is in the cluster may be why
            message = (
                f"for {broken_for:.0f} s no change in the cluster came back as an event, so its API server does not "
                "reach the Watcher; changes are found at intervals"
            )
            return Outcome("False", BROKEN, message, self.canaries.look_again_after(key))
        if unknown:
            message = f"waits for the cluster to know the kinds: {', '.join(unknown)}"
            return Outcome("True", "WatcherReady", message, UNKNOWN_KIND_SECONDS)
        silent_soon = self.silence_seconds - silent_for + 0.1
        again = min(self.interval_seconds, silent_soon, self.canaries.look_again_after(key) + 0.01)
        kinds = {(rule.group, rule.plural.partition("/")[0]) for rule in rules}
        return Outcome("True", "WatcherReady", f"{len(kinds)} kinds of Module CR are watched", again)

    def _not_heard_yet(self, key: ObjectKey, kyma: Kyma, *, anew: bool) -> Outcome:
        """Say of a Watcher that was not heard from yet whether there is time left for it, or something is wrong."""
        if anew:
            self._since[key] = time.monotonic()
        waits_for = self.silence_seconds - self._silent_for(key)
        if waits_for > 0 and _reason_of(kyma) != NEVER_HEARD:
            return Outcome("False", STARTING, "the Watcher is installed and was not heard from yet", waits_for + 0.1)
        self._due[key] = min(self._due.get(key, math.inf), time.monotonic() + SILENT_SECONDS)
        message = "the Watcher is installed, and nothing was ever heard from it; changes are found at intervals"
        return Outcome("False", NEVER_HEARD, message, min(self.interval_seconds, SILENT_SECONDS))

    def _alarm(self, kyma: Kyma, certificate: KeyPair) -> None:
        """Note of a certificate whether it should have been renewed."""
        if renewal_due(certificate.certificate_pem, renew_before=self.renewal_alarm, now=self.clock()):
            self.not_renewed.add(kyma.metadata.name)
        else:
            self.not_renewed.discard(kyma.metadata.name)

    async def _keep_in_place(
        self, key: ObjectKey, kyma: Kyma, documents: Sequence[Document], trust: str, skr: Client
    ) -> bool:
        """Apply the documents where they are others than before, or it is time to see that they are still in place.

        What was applied is noted on the Kyma, so that a new process need not ask the whole fleet at once. Returns
        whether it is noted only now.
        """
        digest = f"{_digest(documents)}{WATCHERS_MARK}{watchers_digest(self.watchers.cache.list())}"
        records = {WATCHER_RECORD: digest, TRUST_RECORD: trust}
        noted = records.items() <= kyma.metadata.annotations.items()
        if noted and _was_applied(kyma) and not self._is_due(key):
            return False
        applied = await apply_whole(skr, self._applier(key, skr), documents)
        applied.raise_first_failure()
        if noted and any(outcome.action != "unchanged" for outcome in applied.outcomes):
            self.canaries.suspect(key)  # somebody else's edit was put right just now
        if any(each.entry.kind == WEBHOOK and each.action in {"created", "changed"} for each in applied.outcomes):
            self.on_other_rules(key)
        self._due[key] = time.monotonic() + self.interval_seconds
        if not noted:
            patch = {"annotations": records}
            await patch_metadata(self.kcp, KYMAS, kyma.metadata, patch, field_manager=FIELD_MANAGER)
        return not noted

    def _is_due(self, key: ObjectKey) -> bool:
        """Tell whether it is time to look; a new process spreads the first time over the interval."""
        if key not in self._due:
            self._due[key] = time.monotonic() + self.interval_seconds * random.random()  # noqa: S311 - no secret
        return time.monotonic() >= self._due[key]

    def _silent_for(self, key: ObjectKey) -> float:
        """Return how long nothing was heard from a Watcher; what was before it was this process's does not count."""
        return time.monotonic() - self._heard.get(key, self._since.get(key, self._began))

    async def _remove(self, key: ObjectKey, skr: Client) -> Outcome:
        result = await self._applier(key, skr).delete(INVENTORY)
        if result.inventory:
            waits = ", ".join(f"{entry.kind} {entry.name}" for entry in result.inventory)
            return Outcome("False", "Removing", f"waits for {waits}", REMOVAL_SECONDS)
        return Outcome("False", REMOVED, "the Watcher is gone from the cluster")

    async def _module_rules(self, kyma: Kyma, skr: Client) -> tuple[list[ModuleRule], list[str]]:
        """Return the rules for the Module CRs of the Kyma's modules, and the kinds the cluster does not know yet."""
        rules: list[ModuleRule] = []
        unknown: list[str] = []
        states = self._kinds_with_states(kyma)
        for kind in {*[each async for each in self._module_kinds(kyma)], *states}:
            try:
                resource = await skr.mapper.resource(kind.api_version, kind.kind)
            except KindUnknown:
                unknown.append(f"{kind.kind} ({kind.api_version})")
            else:
                rules.append(ModuleRule(resource.group, resource.plural))
                if kind in states:
                    rules.append(ModuleRule(resource.group, f"{resource.plural}/status"))
        return rules, unknown

    async def _module_kinds(self, kyma: Kyma) -> AsyncIterator[ModuleCrKind]:
        for module in kyma.status.modules:
            if module.template is None:
                continue
            template = self._template_of(module.template)
            if template is None or not template.spec.enable_module_config:
                continue
            try:
                kinds = await self.kinds.of(template)
            except TemplateUnreadable as error:
                log.warning("module is not watched", kyma=kyma.metadata.name, module=module.name, error=str(error))
                continue
            for kind in kinds:
                yield kind

    def _kinds_with_states(self, kyma: Kyma) -> frozenset[ModuleCrKind]:
        """Return the kinds whose default Module CR tells the state of a module that is installed."""
        templates = [
            self._template_of(module.template)
            for module in kyma.status.modules
            if module.template is not None and module.manifest is not None
        ]
        kinds = [self.kinds.of_default(template) for template in templates if template is not None]
        return frozenset(kind for kind in kinds if kind is not None)

    def _template_of(self, reference: TrackingObject) -> ModuleTemplate | None:
        return self.templates.cache.get(ObjectKey(reference.metadata.namespace or "", reference.metadata.name))

    def _applier(self, key: ObjectKey, skr: Client) -> Applier:
        known = self._appliers.get(key)
        if known is not None and known[0] is skr:
            return known[1]
        applier = Applier(skr, field_manager=FIELD_MANAGER, labels={names.MANAGED_BY: names.LIFECYCLE_MANAGER})
        self._appliers[key] = (skr, applier)
        return applier

    async def _report(self, kyma: Kyma, outcome: Outcome) -> None:
        if outcome.reason in FAULTS and outcome.reason == _reason_of(kyma):
            return  # how long it has lasted is no news
        news = await write_condition(
            self.kcp,
            kyma,
            CONDITION,
            (outcome.status, outcome.reason, outcome.message),
            now=self.clock(),
            field_manager=FIELD_MANAGER,
        )
        if news and (outcome.reason in FAULTS or is_faulty(kyma)):
            kind: Literal["Normal", "Warning"] = "Warning" if outcome.reason in FAULTS else "Normal"
            self.events.record(KYMAS, kyma, outcome.reason, outcome.message, type=kind, action="Watch")


def _was_applied(kyma: Kyma) -> bool:
    """Tell whether the last reconcile got through."""
    condition = find(kyma.status.conditions, CONDITION)
    return condition is not None and (condition.status == "True" or condition.reason in {STARTING, *FAULTS})


def _digest(documents: Iterable[Document]) -> str:
    return hashlib.blake2b(msgspec.json.encode(list(documents), order="sorted"), digest_size=8).hexdigest()


def _was_ready(kyma: Kyma) -> bool:
    condition = find(kyma.status.conditions, CONDITION)
    return condition is not None and (condition.status == "True" or condition.reason in WORKED_BEFORE)


def _reason_of(kyma: Kyma) -> str:
    condition = find(kyma.status.conditions, CONDITION)
    return condition.reason if condition is not None else ""
