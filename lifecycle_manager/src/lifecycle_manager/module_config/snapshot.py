"""What a reconcile of a module's configuration knows: caches of KCP, announced changes, and what its steps read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kube_runtime import Clock, ObjectKey, Request, Snapshot
from kube_runtime.one_by_one import OneByOne
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, ReadScope
from lifecycle_manager.module_config.keys import ModuleKey, Modules, usual_names
from lifecycle_manager.module_config.reading import Found, ModuleCrListing, Reading
from lifecycle_manager.module_config.settings import Quota
from lifecycle_manager.module_config.status import SyncedCondition
from lifecycle_manager.module_config.texts import TextMemory
from lifecycle_manager.skr import Announcement, Announcements, Connections
from lifecycle_manager.skr.announcement import MAX_OBJECTS
from lifecycle_manager.skr.budget import CpuBudget
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate

MIN_POSTPONED_SECONDS = 0.5
NAMED_AT_ONCE = 250
"""So many names take a quarter of a millisecond."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What to read from the SKR: the `named` Module CRs, and all with `complete`.

    They cost so many `cpu_seconds`, as far as that is known. The CPU budget of the cluster has no room for those that
    are `left_out`: they are not even requested, and the newest is read later, whatever announced it.
    """

    named: frozenset[ObjectReference] = frozenset()
    cpu_seconds: float = 0.0
    left_out: frozenset[ObjectReference] = frozenset()
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleConfigSnapshot(Snapshot):
    """The configuration of one module of a Kyma, in the namespace of the module.

    - `item`, `template`: the Kyma, and the template that the module resolved to
    - `existing`: its ModuleConfigs; `usual_names`: those of what was read, where no others have them (`taken`)
    - `pending`: announced changes; `reads`: what to read because of them, at the monotonic time `started`
    - `found`: the Module CRs that were read, without their texts; `accepted` of them are within the quota
    - `reading`: with their texts; None where the module has no configuration, or the SKR can't be read
    - `superseded`: Module CRs of which a later version was read before, so that this is an answer from the past
    - `unreadable`: the condition that says why nothing could be read
    - `written`: whether all writes were carried out; false where they stopped for an event, None before
    """

    kyma: str
    module: str
    namespace: str
    existing: tuple[ModuleConfig, ...] = ()
    item: Kyma | None = None
    template: ModuleTemplate | None = None
    quota: Quota = Quota()
    pending: tuple[Announcement, ...] = ()
    reads: Reads = Reads()
    started: float = 0.0
    found: Found | None = None
    accepted: frozenset[ObjectReference] | None = None
    usual_names: Mapping[ObjectReference, str] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    reading: Reading | None = None
    superseded: frozenset[ObjectReference] = frozenset()
    unreadable: SyncedCondition | None = None
    written: bool | None = None

    @property
    def is_removal(self) -> bool:
        """Whether the user has removed the module."""
        return self.item is not None and all(each.name != self.module for each in self.item.spec.modules)

    @property
    def identities(self) -> Reading:
        """The Module CRs that were read, with their texts as far as these are made."""
        if self.reading is not None or self.found is None:
            return self.reading or Reading(None, {}, complete=False)
        found = self.found
        return Reading(found.default, found.module_crs, found.complete, found.served)


@dataclass(eq=False, slots=True)
class ModuleConfigState:
    """The state of one module: announced changes, and the monotonic time from which on everything is read.

    `listing` reads everything, and was left for an announced change. The budget is that of the cluster.
    """

    announcements: Announcements = field(default_factory=Announcements)
    full_read_due: float = 0.0
    listing: ModuleCrListing | None = None
    memory: TextMemory = field(default_factory=TextMemory)
    budget: CpuBudget = field(default_factory=CpuBudget)

    def note(self, changes: Iterable[ObjectChanged], *, everything: bool, now: float) -> None:
        announced = [self.announcements.announce(change, now=now) for change in changes]
        if everything or not all(announced):
            self.full_read_due = 0.0
            if self.listing is not None:
                self.listing.is_stale = True

    def note_differing(self, configs: Iterable[ModuleConfig]) -> None:
        """Remember to read the Module CRs whose ModuleConfigs are gone, or all where others may differ, too."""
        differing = self.memory.differing(configs)
        if differing is None or len(differing) > MAX_OBJECTS:
            self.full_read_due = 0.0
        else:
            self.memory.postponed |= differing

    def reads(self, now: float) -> Reads:
        """Return what is to be read of what was announced, postponed, or is due."""
        memory, is_short = self.memory, self.budget.wait(now) > 0
        wanted = memory.postponed.union(each.object for each in self.announcements.of())
        left_out = frozenset(filter(memory.cost_of, wanted)) if is_short else frozenset[ObjectReference]()
        named = wanted - left_out
        begins = self.listing is None and now >= self.full_read_due and not (is_short and memory.cost_of_all > 0)
        cpu_seconds = memory.cost_of_all if begins else sum(map(memory.cost_of, named))
        return Reads(named, cpu_seconds, left_out, begins or self.listing is not None)

    def until_next_read(self, now: float) -> float:
        """Return in how many seconds something is to be read, once the budget has room for it."""
        if self.listing is not None:
            return MIN_POSTPONED_SECONDS
        until_due, until_affordable = self.full_read_due - now, max(MIN_POSTPONED_SECONDS, self.budget.wait(now))
        if until_due <= 0:
            return until_affordable
        return min(until_due, until_affordable) if self.memory.postponed else until_due


ModuleConfigRequest = Request[ModuleKey, ModuleConfigState]


@dataclass(frozen=True, eq=False)
class ModuleConfigReader:
    modules: Modules
    connections: Connections
    clock: Clock
    quota: Quota

    async def read(self, request: ModuleConfigRequest) -> ModuleConfigSnapshot:
        key, state, causes, now = request.key, request.state, request.causes, self.clock.monotonic()
        changes, existing = causes.of(ObjectChanged), self.modules.configs_of(key)
        others = [each for each in causes if each is not ReadScope.DIFFERING and not isinstance(each, ObjectChanged)]
        state.note(changes, everything=causes.overflowed or bool(others), now=now)
        if len(others) + len(changes) < len(causes):
            state.note_differing(existing)
        state.budget = self.connections.budget(key.kyma)
        kyma = self.modules.kymas.get(ObjectKey(key.namespace, key.kyma))
        return ModuleConfigSnapshot(
            kyma=key.kyma,
            module=key.module,
            namespace=self.modules.policies.namespace_of(key.module),
            existing=existing,
            item=kyma,
            template=self.modules.template(kyma, key.module),
            quota=self.quota,
            pending=state.announcements.of(),
            reads=state.reads(now),
            started=now,
        )

    async def refreshed(self, key: ModuleKey, seen: ModuleConfigSnapshot, turns: OneByOne) -> ModuleConfigSnapshot:
        """Return a snapshot with the ModuleConfigs of now, and the names for the Module CRs that were read.

        Names take time: those of many Module CRs are made a part at a time, each in a turn.
        """
        read, usual, taken = seen.identities, dict(seen.usual_names), set[str]()
        references = list(read.found)
        for start in range(0, len(references), NAMED_AT_ONCE):
            if start:
                await turns.turn()
            part = references[start : start + NAMED_AT_ONCE]
            new = [each for each in part if each not in usual]
            usual |= usual_names(key.kyma, key.module, read.default, new)
            taken |= self.modules.taken_names(key, map(usual.__getitem__, part))
        existing = self.modules.configs_of(key)
        return replace(seen, existing=existing, usual_names=usual, taken=frozenset(taken))
