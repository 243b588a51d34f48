"""What a reconcile of a module's configuration knows, and what is remembered from one to the next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kube_runtime import Causes
from kube_runtime.resource import version_number
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, ReadScope, Trace
from lifecycle_manager.module_config.reading import NOTHING_READ, ModuleCr, Reading
from lifecycle_manager.options.configuration import Quota
from lifecycle_manager.skr.announcement import MAX_OBJECTS, Announcement, Announcements, ObservedObject
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, ResourceReference

MAX_LEFT_READ = 10
"""So many large Module CRs that were left without a text are read again at once: more would hardly become texts."""
LEFT_SECONDS = 0.05
"""The pause before Module CRs are read again that were left without a text."""
MAX_REMEMBERED = 1000
"""Of so many Module CRs of a module the version that was read is remembered."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What to read from the SKR: all Module CRs with `complete`, else the `named` ones, such as the `announced`."""

    named: frozenset[ObjectReference] = frozenset()
    complete: bool = True
    announced: tuple[Announcement, ...] = ()

    def __bool__(self) -> bool:
        return self.complete or bool(self.named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleConfigSnapshot:
    """The configuration of one module of a Kyma, in the namespace of the module.

    - `item`, `template`: the Kyma, and the template that the module resolved to
    - `existing`: its ModuleConfigs
    - `reading`: the Module CRs, with the texts of those that are `accepted`, or else the `failure` to read them
    - `names`: those of the ModuleConfigs of what was read
    - `traces`: of the Module CRs whose changes were announced
    - `superseded`: Module CRs of which a later version was read before, so that this is an answer from the past
    """

    kyma: str
    module: str
    namespace: str
    existing: tuple[ModuleConfig, ...] = ()
    item: Kyma | None = None
    template: ModuleTemplate | None = None
    quota: Quota = Quota()
    reading: Reading = NOTHING_READ
    failure: Exception | None = None
    names: Mapping[ObjectReference, str] = field(default_factory=dict)
    accepted: frozenset[ObjectReference] = frozenset()
    traces: Mapping[ObjectReference, Trace] = field(default_factory=dict)
    superseded: frozenset[ObjectReference] = frozenset()

    @property
    def is_removal(self) -> bool:
        """Whether the user has removed the module."""
        return self.item is not None and all(each.name != self.module for each in self.item.spec.modules)

    @property
    def exceeds_quota(self) -> bool:
        """Whether Module CRs that were read wait for room in the quota."""
        present = self.reading.present
        size = sum(size_of(each.text or "") for each in present)
        return len(present) > len(self.accepted) or size > self.quota.max_bytes


def size_of(text: str) -> int:
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode())


class ReadVersion(NamedTuple):
    uid: str
    number: int


@dataclass(eq=False, slots=True)
class ReadVersions:
    """The newest version of each accepted Module CR. `has_more` tells whether others wait for room in the quota."""

    newest: dict[ObjectReference, ReadVersion] = field(default_factory=dict)
    has_more: bool = False

    def note(self, seen: ModuleConfigSnapshot) -> frozenset[ObjectReference]:
        """Remember what was read, and return the Module CRs of which a later version was read before.

        In a complete reading each is the newest, also after a restore.
        """
        reading, accepted = seen.reading, seen.accepted
        if reading.complete:
            self.newest, self.has_more = {}, seen.exceeds_quota
        superseded = set[ObjectReference]()
        for source, each in reading.found.items():
            if each is None or each.is_deleting:
                self.newest.pop(source, None)
                continue
            known, read = self.newest.get(source), each.reference
            version = ReadVersion(read.uid, version_number(read.resource_version))
            if known is not None and known.uid == version.uid and known.number > version.number:
                superseded |= {source} if version.number > 0 else set()
            elif known is not None or (source in accepted and len(self.newest) < MAX_REMEMBERED):
                self.newest[source] = version
        return frozenset(superseded)

    def differing(self, configs: Iterable[ModuleConfig]) -> frozenset[ObjectReference] | None:
        """Return the Module CRs whose ModuleConfigs are gone; None where others may differ, too."""
        found = [config.spec.resource_ref for config in configs]
        if self.has_more or len(self.newest) >= MAX_REMEMBERED or not all(map(self._explains, found)):
            return None
        return frozenset(self.newest).difference(ObjectReference.to(each) for each in found if each is not None)

    def _explains(self, reference: ResourceReference | None) -> bool:
        """Tell whether a ModuleConfig with this reference is of a Module CR that was read, or of an older version."""
        read = self.newest.get(ObjectReference.to(reference)) if reference is not None else None
        if read is None or reference is None:
            return False
        return read.uid == reference.uid and version_number(reference.resource_version) <= read.number


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
        announced = tuple(self.announcements.of())
        named = differing.union(left, (each.object for each in announced))
        return Reads(named, now >= self.full_read_due, announced)

    def settle(self, reads: Reads, seen: ModuleConfigSnapshot, *, now: float, interval: float) -> float:
        """Remember what was read of what was to be read; return in how many seconds to read again."""
        found = seen.reading.found
        read = {each: _seen(found.get(each.object)) for each in reads.announced}
        again = self.announcements.settle(read, now=now)
        if reads.complete:
            self.full_read_due, self.left = now + interval, frozenset()
        unread = (each.source for each in seen.reading.present if each.is_unread)
        left = seen.accepted.intersection(unread)
        self.left = (self.left - reads.named) | left
        waits = (self.full_read_due - now, again, LEFT_SECONDS if self.left else None)
        return min(each for each in waits if each is not None)


def _seen(module_cr: ModuleCr | None) -> ObservedObject:
    if module_cr is None:
        return ObservedObject()
    return ObservedObject(module_cr.reference.uid, module_cr.reference.resource_version, module_cr.is_deleting)
