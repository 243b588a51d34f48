"""Carries out the steps for a module's configuration, and settles what was announced at its end."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from kube_runtime import Causes, Clock, JsonObject, Resource, Result
from lifecycle_manager.contract.conditions import interval_for
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_config.keys import ModuleKey, kinds_named_by
from lifecycle_manager.module_config.plan import (
    ModuleConfigEnd,
    ModuleConfigStep,
    ReadModuleCrs,
    WriteToKcp,
    acceptable,
    exceeds_quota,
    writes_of,
)
from lifecycle_manager.module_config.reading import NOTHING_READ, ModuleCr, Reading, find_all, find_some
from lifecycle_manager.module_config.snapshot import ModuleConfigReader, ModuleConfigRequest, ModuleConfigSnapshot
from lifecycle_manager.module_config.status import failed
from lifecycle_manager.module_config.texts import TextMaker
from lifecycle_manager.module_config.writes import ModuleConfigWrites
from lifecycle_manager.skr import Connections, ObservedObject
from lifecycle_manager_api import ModuleTemplate

LEFT_SECONDS = 0.05
"""The pause before Module CRs are read again that were left without a text."""


@dataclass(frozen=True, eq=False)
class ModuleConfigActions:
    """Reads Module CRs, makes their texts, and writes ModuleConfigs.

    `waiting_causes` are those of the next reconcile of a key, which arrived during this one.
    """

    reader: ModuleConfigReader
    connections: Connections
    kinds: ModuleKinds
    writes: ModuleConfigWrites
    clock: Clock
    waiting_causes: Callable[[ModuleKey], Causes]
    interval_seconds: float
    texts: TextMaker = field(default_factory=TextMaker)

    async def apply(
        self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, step: ModuleConfigStep
    ) -> ModuleConfigSnapshot:
        """Carry a step out. Raises KubeError, SkrAccessError or TemplateUnreadable."""
        match step:
            case ReadModuleCrs(template):
                return await self._read(request, seen, template)
            case WriteToKcp(writes):
                traces = {each.object: each.trace for each in request.state.announcements.of()}
                # A change that was announced during the read may have been read as well.
                waiting = self.waiting_causes(request.key).of(ObjectChanged)
                traces |= {change.reference: change.trace for change in waiting}
                await self.writes.apply(seen, writes, traces)
                return replace(seen, written=True)
            case _:
                assert_never(step)

    async def finish(self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, end: ModuleConfigEnd) -> Result:
        """Settle what was announced, and return when to read again."""
        state, now, reading = request.state, self.clock.monotonic(), seen.reading
        if end.waits:
            return Result(requeue_after=state.full_read_due - now)
        if end.forgets or end.settles:
            self.writes.report_problem(seen, "")
        if end.forgets:
            return Result(forget=True)
        if not end.settles or reading is None:
            return Result()
        again = state.announcements.settle(
            {each: _seen(reading.found.get(each.object)) for each in seen.pending}, now=now
        )
        if seen.reads.complete:
            state.full_read_due, state.left = now + interval_for(seen.item, self.interval_seconds), frozenset()
        state.left = (state.left - seen.reads.named) | seen.left
        waits = (state.full_read_due - now, again, LEFT_SECONDS if state.left else None)
        return Result(requeue_after=min(each for each in waits if each is not None))

    async def report(self, key: ModuleKey, error: Exception) -> None:
        """Report an unforeseen exception in all ModuleConfigs of a module. Raises KubeError."""
        modules = self.reader.modules
        seen = ModuleConfigSnapshot(
            kyma=key.kyma,
            module=key.module,
            namespace=modules.policies.namespace_of(key.module),
            existing=modules.configs_of(key),
            unreadable=failed(error),
        )
        await self.writes.apply(seen, writes_of(seen), {})

    async def _read(
        self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, template: ModuleTemplate | None
    ) -> ModuleConfigSnapshot:
        key, state = request.key, request.state
        found = await self._found(request, seen, template)
        seen = self.reader.refreshed(key, seen, found)
        accepted = acceptable(seen, found)
        reading = await self.texts.with_texts(key.kyma, found, accepted)
        left = frozenset(each.source for each in reading.present if each.is_unread and each.source in accepted)
        superseded = state.versions.note(reading, accepted, exceeds_quota=exceeds_quota(seen, reading, accepted))
        existing = self.reader.modules.configs_of(key)
        return replace(seen, existing=existing, reading=reading, superseded=superseded, left=left)

    async def _found(
        self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, template: ModuleTemplate | None
    ) -> Reading:
        reads, known = seen.reads, seen.existing
        kinds = await self.kinds.of(template) if template else kinds_named_by(known, request.key)
        skr = await request.shared("skr", lambda: self.connections.to(request.key.kyma))
        require = partial(self._require_own, request.key, template)
        found = await find_all(skr, kinds, require, is_removal=seen.is_removal) if reads.complete else NOTHING_READ
        if not found.complete:
            named = await find_some(skr, kinds, sorted(reads.named.difference(found.found)), require)
            found = replace(found, default=named.default, found={**found.found, **named.found})
        if template is None:
            return found.only({ObjectReference.to(each.spec.resource_ref) for each in known if each.spec.resource_ref})
        return found

    def _require_own(self, key: ModuleKey, template: ModuleTemplate | None, resource: Resource[JsonObject]) -> None:
        """Raise TemplateUnreadable where a kind is not the module's; without a template nothing new is read."""
        if template is not None and (why := self.reader.modules.foreign_kind(key, resource)):
            raise TemplateUnreadable(f"ModuleTemplate {template.metadata.name}: {why}")


def _seen(module_cr: ModuleCr | None) -> ObservedObject:
    if module_cr is None:
        return ObservedObject()
    return ObservedObject(module_cr.reference.uid, module_cr.reference.resource_version, module_cr.is_deleting)
