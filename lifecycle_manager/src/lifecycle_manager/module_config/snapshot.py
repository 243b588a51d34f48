"""What a reconcile of a module's configuration knows: caches of KCP, announced changes, and what its steps read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kube_runtime import Causes, Clock, ObjectKey, Request, Snapshot
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, ReadScope
from lifecycle_manager.module_config.keys import ModuleKey, Modules, usual_names
from lifecycle_manager.module_config.reading import Reading
from lifecycle_manager.module_config.settings import Quota
from lifecycle_manager.module_config.status import SyncedCondition
from lifecycle_manager.module_config.versions import ReadVersions
from lifecycle_manager.skr import Announcement, Announcements
from lifecycle_manager.skr.announcement import MAX_OBJECTS
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate

MAX_LEFT_READ = 10
"""So many large Module CRs that were left without a text are read again at once: more would hardly become texts."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What to read from the SKR: all Module CRs with `complete`, else the `named` ones."""

    named: frozenset[ObjectReference] = frozenset()
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleConfigSnapshot(Snapshot):
    """The configuration of one module of a Kyma, in the namespace of the module.

    - `item`, `template`: the Kyma, and the template that the module resolved to
    - `existing`: its ModuleConfigs; `usual_names`: those of what was read, where no others have them (`taken`)
    - `pending`: announced changes; `reads`: what to read because of them
    - `reading`: the Module CRs; None where the module has no configuration, or the SKR can't be read
    - `superseded`: Module CRs of which a later version was read before, so that this is an answer from the past
    - `left`: Module CRs that were left without a text, to be read again soon
    - `unreadable`: the condition that says why nothing could be read
    - `written`: whether the writes were carried out
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
    usual_names: Mapping[ObjectReference, str] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    reading: Reading | None = None
    superseded: frozenset[ObjectReference] = frozenset()
    left: frozenset[ObjectReference] = frozenset()
    unreadable: SyncedCondition | None = None
    written: bool = False

    @property
    def is_removal(self) -> bool:
        """Whether the user has removed the module."""
        return self.item is not None and all(each.name != self.module for each in self.item.spec.modules)


@dataclass(eq=False, slots=True)
class ModuleConfigState:
    """The state of one module: announced changes, and the monotonic time from which on everything is read.

    `left` are Module CRs that were left without a text.
    """

    announcements: Announcements = field(default_factory=Announcements)
    full_read_due: float = 0.0
    left: frozenset[ObjectReference] = frozenset()
    versions: ReadVersions = field(default_factory=ReadVersions)

    def note(self, causes: Causes, configs: Iterable[ModuleConfig], *, now: float) -> Reads:
        """Remember why to reconcile, and return what is to be read now.

        Where ModuleConfigs were created or deleted by others, the Module CRs are read whose ModuleConfigs are gone.
        """
        everything, differing = causes.overflowed, frozenset[ObjectReference]()
        for cause in causes:
            if isinstance(cause, ObjectChanged):
                everything |= not self.announcements.announce(cause, now=now)
            elif cause is ReadScope.DIFFERING:
                found = self.versions.differing(configs)
                everything |= found is None or len(found) > MAX_OBJECTS
                differing = found or differing
            else:
                everything = True
        if everything:
            self.full_read_due = 0.0
        left = sorted(self.left)[:MAX_LEFT_READ]
        named = differing.union(left, (each.object for each in self.announcements.of()))
        return Reads(named, complete=now >= self.full_read_due)


ModuleConfigRequest = Request[ModuleKey, ModuleConfigState]


@dataclass(frozen=True, eq=False)
class ModuleConfigReader:
    modules: Modules
    clock: Clock
    quota: Quota

    async def read(self, request: ModuleConfigRequest) -> ModuleConfigSnapshot:
        key, state, causes, now = request.key, request.state, request.causes, self.clock.monotonic()
        existing = self.modules.configs_of(key)
        reads = state.note(causes, existing, now=now)
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
            reads=reads,
        )

    def refreshed(self, key: ModuleKey, seen: ModuleConfigSnapshot, reading: Reading) -> ModuleConfigSnapshot:
        """Return a snapshot with the ModuleConfigs of now, and the names for the Module CRs that were read."""
        usual = usual_names(key.kyma, key.module, reading.default, reading.found)
        taken = self.modules.taken_names(key, usual.values())
        return replace(seen, existing=self.modules.configs_of(key), usual_names=usual, taken=taken)
