"""Which versions of its Module CRs a module's reconciles have read."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kube_runtime.resource import version_number
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_config.reading import Reading
from lifecycle_manager_api import ModuleConfig, ResourceReference

MAX_REMEMBERED = 1000


class ReadVersion(NamedTuple):
    uid: str
    number: int


@dataclass(eq=False, slots=True)
class ReadVersions:
    """The newest version of each accepted Module CR. `has_more` tells whether others wait for room in the quota."""

    newest: dict[ObjectReference, ReadVersion] = field(default_factory=dict)
    has_more: bool = False

    def note(
        self, reading: Reading, accepted: Collection[ObjectReference], *, exceeds_quota: bool
    ) -> frozenset[ObjectReference]:
        """Remember what was read, and return the Module CRs of which a later version was read before.

        In a complete reading each is the newest, also after a restore.
        """
        if reading.complete:
            self.newest, self.has_more = {}, exceeds_quota
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
