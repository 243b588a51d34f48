"""Deletes objects that were applied: what depends on others first, and nothing that is somebody else's."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kube_runtime.apply.contents import NAMESPACE, contents_of, objects_of_crd
from kube_runtime.apply.existence import find_object
from kube_runtime.apply.kept import KeptObjects
from kube_runtime.apply.memory import ApplyMemory
from kube_runtime.apply.objects import Identity, InventoryEntry
from kube_runtime.apply.order import CRD, CUSTOM_RESOURCES, rank_of
from kube_runtime.apply.refusals import explained
from kube_runtime.apply.results import ObjectOutcome, is_there
from kube_runtime.client.client import Client
from kube_runtime.exceptions import KubeError, NotFound
from kube_runtime.resource import JsonObject, Resource

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ObjectRemoval:
    """Deletes objects of one cluster; `owns` tells whether one, as it is in the cluster, may be deleted."""

    client: Client
    owns: Callable[[InventoryEntry, JsonObject], bool]
    memory: ApplyMemory

    async def remove(
        self, entries: Sequence[InventoryEntry], spared: frozenset[str] = frozenset()
    ) -> list[ObjectOutcome]:
        """Delete by rank, backwards; what others stand on waits until they are gone.

        Once custom resources are, what their controller made of them is as well, before what acts on its finalizers.
        """
        outcomes: list[ObjectOutcome] = []
        left, kept = list(entries), KeptObjects()
        while left:
            rank = max(rank_of(entry.group, entry.kind) for entry in left)
            members = [entry for entry in left if rank_of(entry.group, entry.kind) == rank]
            left = [entry for entry in left if entry not in members]
            outcomes.extend(await concurrently(lambda entry: self._remove(entry, spared, kept), members))
            waiting = rank == CUSTOM_RESOURCES and await self.held(left)
            if waiting or any(map(is_there, outcomes)):
                return [*outcomes, *(waiting or (ObjectOutcome(entry, None, "kept") for entry in left))]
        return outcomes

    async def held(self, entries: Sequence[InventoryEntry]) -> list[ObjectOutcome]:
        """Return why nothing of a set may be deleted yet; nothing where that may begin.

        As long as a CRD of it has objects of others, what runs beside it stays: it acts on their finalizers.
        """
        crds = [entry for entry in entries if (entry.group, entry.kind) == CRD]
        if not crds or len(crds) == len(entries):
            return []
        own, kept = {entry.identity for entry in entries}, KeptObjects()
        asked = await concurrently(lambda crd: self._in_use(crd, own, kept), crds)
        in_use = {each.entry: each for each in asked if is_there(each)}
        return [in_use.get(each) or ObjectOutcome(each, None, "kept") for each in entries] if in_use else []

    async def _in_use(self, crd: InventoryEntry, own: Collection[Identity], kept: KeptObjects) -> ObjectOutcome:
        """Tell whether a CRD that is to be deleted has objects that are not one's own."""
        try:
            found = await find_object(self.client, crd)
            if found is None or not self.owns(crd, found.live):
                return ObjectOutcome(crd, None, "released")
            kept.keep(found.live)
            if contents := await objects_of_crd(self.client, found.live, own):
                return ObjectOutcome(crd, None, "held", live=found.live, contents=contents)
        except KubeError as error:
            return ObjectOutcome(crd, None, "failed", explained(error), cause=error)
        return ObjectOutcome(crd, None, "pruned")

    async def _remove(self, entry: InventoryEntry, spared: frozenset[str], kept: KeptObjects) -> ObjectOutcome:
        """Delete one object.

        Not one that is gone, somebody else's by now, one of the spared in an earlier group, or that contains objects.
        """
        self.memory.forget(entry)
        try:
            found = await find_object(self.client, entry)
            if found is None:
                return ObjectOutcome(entry, None, "pruned")
            resource, live = found
            if not self.owns(entry, live) or live["metadata"].get("uid") in spared:
                return ObjectOutcome(entry, None, "released")
            is_going = live["metadata"].get("deletionTimestamp")
            may_contain = (entry.group, entry.kind) in {CRD, NAMESPACE}
            if is_going or may_contain:
                kept.keep(live)
            if is_going:
                return ObjectOutcome(entry, None, "pruned", live=live)
            if not may_contain:  # hundreds may wait for their turn
                live, found = {"metadata": {"uid": live["metadata"].get("uid")}}, None
            done = await self._delete(resource, entry, live)
            kept.keep(done.live)
        except NotFound:  # deleted meanwhile
            return ObjectOutcome(entry, None, "pruned")
        except KubeError as error:
            return ObjectOutcome(entry, None, "failed", explained(error), cause=error)
        return done

    async def _delete(self, resource: Resource[JsonObject], entry: InventoryEntry, live: JsonObject) -> ObjectOutcome:
        """Delete an object as it was read, unless it contains objects of others. Raises KubeError."""
        if contents := await contents_of(self.client, entry, live):
            return ObjectOutcome(entry, None, "held", live=live, contents=contents)
        uid = live["metadata"].get("uid")
        staying = await self.client.delete(resource, entry.name, entry.namespace or None, uid=uid)
        return ObjectOutcome(entry, None, "pruned", live=staying)


async def concurrently(act: Callable[[T], Coroutine[Any, Any, R]], things: Sequence[T]) -> list[R]:
    """Do the same with all things at once. The client limits how many requests are under way."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(act(thing)) for thing in things]
    return [task.result() for task in started]
