"""Sets of objects without servers: what a reconcile asks of the SKR and writes to KCP, in its order."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kube_runtime import ApplyResult, Client, Informer, InventoryEntry, JsonObject, KubernetesObject, ObjectOutcome
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.inventory import Identity, entries_of, without
from lifecycle_manager.object_set.others import OtherSets
from lifecycle_manager.object_set.ownership import SetOwner
from lifecycle_manager.object_set.reporting import set_owner
from lifecycle_manager_api import Manifest, SyncResource

SKR = cast("Client", object())
"""The client of an SKR that nothing is sent to."""


async def _takes_nothing(*_: object) -> dict[InventoryEntry, SetOwner]:
    return {}


NO_OTHER_SETS = cast(
    "OtherSets",
    SimpleNamespace(found_before=lambda _: frozenset(), in_removal=lambda _: frozenset(), take=_takes_nothing),
)
LIVE: JsonObject = {"metadata": {"uid": "1", "resourceVersion": "1"}}


@dataclass(frozen=True, slots=True)
class Applied:
    """Objects that a reconcile has applied, and with what."""

    objects: tuple[KubernetesObject, ...]
    inventory: tuple[InventoryEntry, ...]
    namespaces: tuple[str, ...]
    found: frozenset[Identity]


@dataclass(eq=False)
class RecordedSet:
    """An SKR without a server, and the writes to KCP.

    - `wanted`: what the texts resolve to, by default each object in the namespace that it names
    - `failing`: the names of objects that the SKR refuses
    - `there`: objects that are in the SKR before they are applied
    - `in_use`: what stays when it is pruned, as it contains objects
    """

    wanted: frozenset[InventoryEntry] | None = None
    failing: Collection[str] = ()
    there: Collection[InventoryEntry] = ()
    in_use: Collection[InventoryEntry] = ()
    applied: list[Applied] = field(default_factory=list)
    recorded: list[tuple[InventoryEntry, ...]] = field(default_factory=list)
    released: list[InventoryEntry] = field(default_factory=list)
    pruned: list[InventoryEntry] = field(default_factory=list)
    deleted: list[InventoryEntry] = field(default_factory=list)
    statuses: list[Any] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    is_finalizer_removed: bool = False

    def objects_of(self, resource: Manifest | SyncResource, namespace: str = "default") -> SkrObjects:
        """Return what the state of an owner has, so that the reconcile uses it."""
        return RecordedObjects(SKR, set_owner(resource), namespace, self)

    def entry_of(self, thing: KubernetesObject) -> InventoryEntry:
        """Return what a document is in the SKR."""
        group, _, version = thing.api_version.rpartition("/")
        alike = (each for each in self.wanted or () if (each.kind, each.name) == (thing.kind, thing.name))
        return next(alike, InventoryEntry(group, version, thing.kind, thing.namespace, thing.name))

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator[Client]:
        """Lend the client of the SKR, as Connections do."""
        yield SKR


class RecordedObjects(SkrObjects):
    """The objects of one owner in an SKR without a server."""

    def __init__(self, skr: Client, owner: SetOwner, namespace: str, world: RecordedSet) -> None:
        super().__init__(skr, owner, namespace)
        self.world = world

    @property
    def applier(self) -> Any:
        return self

    async def intended(self, objects: Iterable[KubernetesObject], _: object) -> Iterable[InventoryEntry]:
        self.world.requests.append("resolve")
        return map(self.world.entry_of, objects) if self.world.wanted is None else self.world.wanted

    async def existing(self, entries: Collection[InventoryEntry]) -> Mapping[InventoryEntry, JsonObject | None]:
        return {each: LIVE for each in entries if each in self.world.there}

    async def apply(
        self, objects: tuple[KubernetesObject, ...], inventory: tuple[InventoryEntry, ...], **options: Any
    ) -> ApplyResult:
        self.world.requests.append("apply")
        self.world.applied.append(Applied(objects, inventory, options["namespaces"], options["found"]))
        outcomes = [self._outcome(index, each) for index, each in enumerate(objects)]
        named = {each.entry for each in outcomes}
        kept = [ObjectOutcome(each, None, "kept") for each in inventory if each not in named]
        return ApplyResult((*outcomes, *kept), tuple(sorted({*inventory, *named})))

    async def leave(self, entries: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
        self.world.requests.append("release")
        self.world.released += (left := tuple(entries))
        return left

    async def prune(self, applied: ApplyResult, entries: tuple[InventoryEntry, ...]) -> ApplyResult:
        self.world.requests.append("prune")
        gone = [each for each in entries if each not in self.world.in_use]
        self.world.pruned += gone
        outcomes = tuple(each for each in applied.outcomes if each.entry not in gone)
        return ApplyResult(outcomes, without(applied.inventory, gone))

    async def delete(
        self, entries: Collection[InventoryEntry], *, in_removal: Callable[[], Collection[str]] = frozenset
    ) -> tuple[ApplyResult, tuple[ObjectOutcome, ...]]:
        self.world.requests.append("delete")
        self.world.deleted += entries
        return ApplyResult((), ()), ()

    def _outcome(self, index: int, thing: KubernetesObject) -> ObjectOutcome:
        if thing.name in self.world.failing:
            return ObjectOutcome(self.world.entry_of(thing), index, "failed", error="no")
        return ObjectOutcome(self.world.entry_of(thing), index, "changed", live=LIVE)


@dataclass(eq=False)
class RecordedWrites:
    """The writes of owners to KCP."""

    world: RecordedSet
    finalizer: str
    informer: Informer[Any] = field(default_factory=lambda: cast("Informer[Any]", None))

    async def intend(self, owner: Any, status: Any) -> Any:
        self.world.requests.append("record")
        finalizers = tuple(dict.fromkeys((*owner.metadata.finalizers, self.finalizer)))
        self.world.recorded.append(entries_of(status.synced))
        metadata = msgspec.structs.replace(owner.metadata, finalizers=finalizers)
        return msgspec.structs.replace(owner, metadata=metadata, status=status)

    async def report(self, _owner: Any, status: Any) -> None:
        self.world.statuses.append(status)

    async def remove_finalizer(self, _owner: Any, *, of_others: bool = False) -> None:
        assert not of_others
        self.world.is_finalizer_removed = True

    def record(self, *_: object) -> None:
        """Events are not recorded."""
