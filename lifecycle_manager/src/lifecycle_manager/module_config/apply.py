"""Carries out the steps for a module's configuration, and settles what was announced at its end."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never
from weakref import WeakSet

from kube_runtime import Causes, Clock, JsonObject, Resource, Result
from kube_runtime.one_by_one import OneByOne
from lifecycle_manager.contract.conditions import interval_for
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_config.keys import ModuleKey, kinds_named_by
from lifecycle_manager.module_config.plan import (
    ListModuleCrs,
    MakeTexts,
    ModuleConfigEnd,
    ModuleConfigStep,
    Write,
    WriteToKcp,
    writes_of,
)
from lifecycle_manager.module_config.reading import (
    LARGE_BYTES,
    NOTHING_FOUND,
    Found,
    ModuleCr,
    ModuleCrListing,
    find_some,
)
from lifecycle_manager.module_config.snapshot import (
    ModuleConfigReader,
    ModuleConfigRequest,
    ModuleConfigSnapshot,
    Reads,
)
from lifecycle_manager.module_config.status import failed
from lifecycle_manager.module_config.text_process import TextProcess
from lifecycle_manager.module_config.texts import TextMaker
from lifecycle_manager.module_config.writes import ModuleConfigWrites
from lifecycle_manager.skr import Connections, ObservedObject
from lifecycle_manager_api import ModuleTemplate

MANY_OBJECTS = 50
"""Module CRs and ModuleConfigs that are compared without asking for a turn: in half a millisecond."""
MAX_LISTED_BYTES = 128 * 1024 * 1024
"""Listings that were left for an announced change stay in memory, unless all have more."""


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
    process: TextProcess = field(default_factory=TextProcess)
    turns: OneByOne = field(default_factory=OneByOne)
    listings: WeakSet[ModuleCrListing] = field(default_factory=WeakSet, init=False)

    async def apply(
        self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, step: ModuleConfigStep
    ) -> ModuleConfigSnapshot:
        """Carry a step out. Raises KubeError, SkrAccessError or TemplateUnreadable."""
        match step:
            case ListModuleCrs():
                found = await self._found(request, seen, step)
                await self._turn(seen, found)
                return await self.reader.refreshed(request.key, replace(seen, found=found), self.turns)
            case MakeTexts():
                return await self._with_texts(request, seen, step)
            case WriteToKcp(writes):
                return replace(seen, written=await self._written(request, seen, writes))
            case _:
                assert_never(step)

    async def finish(self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, end: ModuleConfigEnd) -> Result:
        """Settle what was announced, and return when to read again."""
        state, now, reads = request.state, self.clock.monotonic(), seen.reads
        if end.forgets or end.settles:
            self.writes.report_problem(seen, "")
        if end.forgets:
            return Result(forget=True)
        if end.postpones:
            state.announcements.settle({each: ObservedObject() for each in seen.pending}, now=now)
            state.memory.postponed |= reads.left_out
            return Result(requeue_after=state.until_next_read(now))
        if not end.settles or seen.reading is None:
            state.listing = None
            return Result()
        shown = {each: _seen(seen.reading.found.get(each.object)) for each in seen.pending}
        again = state.announcements.settle(shown, now=now)
        if (listing := state.listing) is not None:
            listing.was_left = True
            if listing.is_finished and seen.written is not False:
                state.listing = None
                if not listing.is_stale:
                    state.full_read_due = seen.started + interval_for(seen.item, self.interval_seconds)
        until_next = state.until_next_read(now)
        return Result(requeue_after=until_next if again is None else min(until_next, again))

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

    async def _found(self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, step: ListModuleCrs) -> Found:
        reads, state = step.reads, request.state
        state.budget.charge(reads.cpu_seconds, self.clock.monotonic())  # at once: others wait for their turn
        known = seen.existing
        kinds = await self.kinds.of(step.template) if step.template else kinds_named_by(known, request.key)
        skr = await request.shared("skr", lambda: self.connections.to(request.key.kyma))
        found, listing = NOTHING_FOUND, None
        require = partial(self._require_own, request.key, step.template)
        if reads.complete:
            listing, state.listing = state.listing, None  # what fails begins again
            if listing is None or (listing.kinds, listing.is_removal) != (kinds, seen.is_removal):
                listing = ModuleCrListing(kinds, require, self.turns, seen.is_removal)
                self.listings.add(listing)
            found = await listing.read(skr, lambda: self._may_leave(request.key, reads))
            state.listing = listing
        if reads.named and not (found.complete and listing is not None and not listing.was_left):
            named = await find_some(skr, kinds, sorted(reads.named), require)
            found = found.with_others(named)
            if listing is not None:
                listing.note(named)
        if step.template is None:
            return found.of({ObjectReference.to(each.spec.resource_ref) for each in known if each.spec.resource_ref})
        return found

    def _require_own(self, key: ModuleKey, template: ModuleTemplate | None, resource: Resource[JsonObject]) -> None:
        """Raise TemplateUnreadable where a kind is not the module's; without a template nothing new is read."""
        if template is not None and (why := self.reader.modules.foreign_kind(key, resource)):
            raise TemplateUnreadable(f"ModuleTemplate {template.metadata.name}: {why}")

    def _may_leave(self, key: ModuleKey, reads: Reads) -> bool:
        """Tell whether to leave a listing for changes that were announced. It stays in memory, if there is room."""
        has_room = sum(listing.kept for listing in self.listings) < MAX_LISTED_BYTES
        return has_room and bool(reads.named or self._waiting(key))

    async def _with_texts(
        self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, step: MakeTexts
    ) -> ModuleConfigSnapshot:
        memory = request.state.memory
        maker = TextMaker(
            process=self.process, memory=memory, budget=request.state.budget, clock=self.clock, turns=self.turns
        )
        await self._turn(seen, step.found)
        reading = await maker.with_texts(step.found, step.accepted, step.configs, step.remaining_bytes)
        await self._turn(seen, step.found)
        memory.postponed |= seen.reads.left_out
        read = (each for each in reading.found.values() if each is not None)
        superseded = frozenset(each.source for each in read if memory.is_superseded(each))
        made = replace(seen, reading=reading, accepted=step.accepted, superseded=superseded)
        made = await self.reader.refreshed(request.key, made, self.turns)
        await self._turn(seen, step.found)
        return made

    async def _turn(self, seen: ModuleConfigSnapshot, found: Found) -> None:
        """Wait for a turn of the loop where names, plan and texts take milliseconds, maybe of many clusters at once."""
        size = sum(map(len, found.sources.values()))
        if len(found.module_crs) + len(seen.existing) > MANY_OBJECTS or size > LARGE_BYTES:
            await self.turns.turn()

    async def _written(
        self, request: ModuleConfigRequest, seen: ModuleConfigSnapshot, writes: tuple[Write, ...]
    ) -> bool:
        """Return false where the writes stopped for an event; what is left is found again."""
        traces = {each.object: each.trace for each in request.state.announcements.of()}
        # A change that was announced during the read may have been read as well.
        traces |= {change.reference: change.trace for change in self._waiting(request.key)}
        return await self.writes.apply(seen, writes, traces, is_awaited=lambda: bool(self._waiting(request.key)))

    def _waiting(self, key: ModuleKey) -> tuple[ObjectChanged, ...]:
        return tuple(self.waiting_causes(key).of(ObjectChanged))


def _seen(module_cr: ModuleCr | None) -> ObservedObject:
    if module_cr is None:
        return ObservedObject()
    return ObservedObject(module_cr.reference.uid, module_cr.reference.resource_version, module_cr.is_deleting)
