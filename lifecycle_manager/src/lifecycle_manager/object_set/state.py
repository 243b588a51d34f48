"""What a process remembers of one set of objects, and how events about single objects are folded into it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kube_runtime import InventoryEntry, KubernetesObject
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.inventory import Identity
from lifecycle_manager.object_set.repairs import Repairs
from lifecycle_manager.skr.announcement import Announcements, ObservedObject


@dataclass(eq=False, slots=True)
class SetState:
    """What is remembered from reconcile to reconcile.

    - `inventory`: what is in the SKR or about to be, from before the status says so
    - `announcements`: changes that a read has to show yet; `repairs`: the budgets of objects that others change
    """

    announcements: Announcements = field(default_factory=Announcements)
    repairs: Repairs = field(default_factory=Repairs)
    objects: SkrObjects | None = None
    inventory: tuple[InventoryEntry, ...] = ()

    def claim(self, objects: Iterable[KubernetesObject]) -> None:
        """Note what is about to be applied, before the SKR has said which objects that are there."""

    def remember(self, entries: Iterable[InventoryEntry]) -> None:
        """Put these objects in the place of those that were known."""
        self.inventory = tuple(entries)

    def renew(self, objects: SkrObjects) -> None:
        """Begin anew: another client may lead to another cluster."""
        self.objects = objects

    def note(
        self, changes: Iterable[ObjectChanged], *, now: float, contested: Callable[[str], None], is_free: bool = False
    ) -> bool:
        """Announce changes that the budgets of their objects allow; return false where everything is to be read.

        `contested` gets the note of an Event about an object whose budget is used up. What `is_free` has no budget.
        """
        announced = []
        for change in changes:
            if not is_free and not self.repairs.grants(change, now):
                contested(self.repairs.contested(change))
            else:
                announced.append(self.announcements.announce(change, now=now))
        return all(announced)

    def announced(self) -> frozenset[Identity]:
        """Return the objects that a read has to show yet."""
        return frozenset(each.object for each in self.announcements.of())

    def settle(self, shown: Mapping[ObjectReference, ObservedObject], *, now: float) -> float | None:
        """Return in how many seconds to read again what was announced and is not shown; None where all is."""
        pending = self.announcements.of()
        return self.announcements.settle({each: shown.get(each.object, ObservedObject()) for each in pending}, now=now)
