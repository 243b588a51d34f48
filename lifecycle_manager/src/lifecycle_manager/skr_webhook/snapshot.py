"""What is known of one SKR's Watcher at a moment of a reconcile, and what a process remembers of it."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec
import structlog

from kube_runtime import (
    Change,
    Client,
    Clock,
    Informer,
    KindUnknown,
    KubernetesObject,
    ObjectKey,
    Request,
)
from kyma_certs import CAs
from lifecycle_manager.contract.signals import ClusterReplaced, ResyncRequested, WatcherEventReceived
from lifecycle_manager.contract.watchers import SEPARATOR, watchers_digest
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind, ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_catalog.offer import link_pin_of
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.options.watcher import WatcherTimes
from lifecycle_manager.skr_webhook.documents import Document, ModuleRule
from lifecycle_manager.skr_webhook.timers import Timers
from lifecycle_manager.watcher_certificates.certificates import CertificateMemory
from lifecycle_manager_api import Kyma, ModuleTemplate, TrackingObject, Watcher

log = structlog.get_logger("skr_webhook")


@dataclass(eq=False, slots=True)
class WatcherState:
    """What a process remembers of one Watcher, lost with the process or when another replica gets the Kyma.

    `rules_unknown`: the last write of the webhook failed, and may be stored.
    """

    timers: Timers | None = None
    certificate: CertificateMemory = field(default_factory=CertificateMemory)
    renewal_overdue: bool = False
    objects: SkrObjects | None = None
    rules_unknown: bool = False


@dataclass(frozen=True, slots=True)
class ModuleCrRules:
    """The rules for the Module CRs of a Kyma's modules, and the kinds that the SKR does not know yet."""

    rules: tuple[ModuleRule, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def kinds(self) -> int:
        return len({(rule.group, rule.plural.partition("/")[0]) for rule in self.rules})


@dataclass(frozen=True, slots=True)
class Desired:
    """The objects that belong into the SKR, and the records in the Kyma's status once they are applied.

    `overdue_until` is the end of a certificate that should have been renewed.
    """

    objects: tuple[KubernetesObject, ...]
    records: Mapping[str, str]
    rules: ModuleCrRules
    with_webhook: bool
    overdue_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSnapshot:
    """One Watcher at a moment of a reconcile.

    `now` is monotonic. `is_triggered`: something happened, and not only the time has passed.
    """

    kyma: Kyma
    now: float
    times: WatcherTimes
    timers: Timers
    is_triggered: bool = True


@dataclass(frozen=True, eq=False)
class WatcherReader:
    """Reads what is known without the SKR."""

    kymas: Informer[Kyma]
    clock: Clock
    times: WatcherTimes

    def read(self, request: Request[ObjectKey, WatcherState]) -> WatcherSnapshot | None:
        kyma, causes, state = self.kymas.get(request.key), request.causes, request.state
        if kyma is None:
            return None
        now = self.clock.monotonic()
        timers = state.timers or Timers.started(self.times, request.key.name, now=now, at=self.clock.now())
        timers = timers.received(self.times, causes.of(WatcherEventReceived))
        if causes.of(ClusterReplaced) or causes.overflowed:
            timers = timers.repair_now()
        is_triggered = causes.overflowed or len(causes) > len(causes.of(WatcherEventReceived))
        if causes.of(ResyncRequested):  # a Watcher that has just started learns by a canary that it can be reached
            timers = timers.suspected(self.times, now)
        state.timers = timers
        return WatcherSnapshot(kyma=kyma, now=now, times=self.times, timers=timers, is_triggered=is_triggered)


class ResolvedModule(NamedTuple):
    """The template of a Kyma's module, and whether the module is installed."""

    template: TrackingObject | None
    is_installed: bool


@dataclass(frozen=True, eq=False)
class ModuleRuleReader:
    """Finds out which kinds of Module CRs the Watcher of a Kyma has to report."""

    templates: Informer[ModuleTemplate]
    kinds: ModuleKinds

    def may_change(self, change: Change[Kyma]) -> bool:
        """Tell whether a Kyma's change may change the rules: most new versions of a module have the same kinds."""
        if change.old is None or change.new is None:
            return False
        before, after = resolved_modules(change.old), resolved_modules(change.new)
        return before != after and [*map(self._read_of, before)] != [*map(self._read_of, after)]

    def may_differ(self, change: Change[ModuleTemplate]) -> bool:
        """Tell whether an edited template may lead to other rules than before."""
        old, new = change.old, change.new
        return old is not None and new is not None and self._parts_of(old) != self._parts_of(new)

    async def read(self, kyma: Kyma, skr: Client) -> ModuleCrRules:
        rules: list[ModuleRule] = []
        unknown: list[str] = []
        watched, with_state = await self._kinds_of(kyma)
        for kind in watched | with_state:
            try:
                resource = await skr.mapper.served(kind.api_version, kind.kind)
            except KindUnknown:
                resource = None
            if resource is None:
                unknown.append(f"{kind.kind} ({kind.api_version})")
                continue
            rules.append(ModuleRule(resource.group, resource.plural))
            if kind in with_state:
                rules.append(ModuleRule(resource.group, f"{resource.plural}/status"))
        return ModuleCrRules(tuple(rules), tuple(unknown))

    async def _kinds_of(self, kyma: Kyma) -> tuple[set[ModuleCrKind], set[ModuleCrKind]]:
        """Return the kinds that are watched, and those whose default Module CR shows the state of a module."""
        watched: set[ModuleCrKind] = set()
        with_state: set[ModuleCrKind] = set()
        for module in resolved_modules(kyma):
            template = self._template_of(module.template)
            if template is None:
                continue
            if module.is_installed and (default := self.kinds.of_default(template)) is not None:
                with_state.add(default)
            if template.spec.enable_module_config:
                try:
                    watched.update(await self.kinds.of(template))
                except TemplateUnreadable as error:
                    name = template.metadata.name
                    log.warning("module is not watched", kyma=kyma.metadata.name, template=name, error=str(error))
        return watched, with_state

    def _read_of(self, module: ResolvedModule) -> object:
        """Return what the rules of a module follow from, without a download."""
        template = self._template_of(module.template)
        if template is None:
            return module
        default, watched = self._parts_of(template)
        return default if module.is_installed else None, watched

    def _parts_of(self, template: ModuleTemplate) -> tuple[ModuleCrKind | None, ModuleCrKind | str | None]:
        """Return the kind of the default Module CR, and what is watched: it, or what has the digest of the link."""
        default = self.kinds.of_default(template)
        if not template.spec.enable_module_config:
            return default, None
        return default, link_pin_of(template) if default is None else default

    def _template_of(self, reference: TrackingObject | None) -> ModuleTemplate | None:
        if reference is None:
            return None
        return self.templates.get(ObjectKey(reference.metadata.namespace or "", reference.metadata.name))


def resolved_modules(kyma: Kyma) -> list[ResolvedModule]:
    """Return what a Watcher's rules are read from."""
    return [ResolvedModule(module.template, module.manifest is not None) for module in kyma.status.modules]


def records_of(kyma: Kyma) -> dict[str, str]:
    return {"watcher": kyma.status.records.watcher, "trust": kyma.status.records.trust}


def records_for(documents: Iterable[Document], watchers: Iterable[Watcher], cas: CAs) -> dict[str, str]:
    """Return the records of objects once they are applied: digests of their content, the Watcher CRs and the CAs."""
    digest = hashlib.blake2b(msgspec.json.encode(tuple(documents), order="sorted"), digest_size=8).hexdigest()
    return {"watcher": f"{digest}{SEPARATOR}{watchers_digest(watchers)}", "trust": cas.fingerprint}
