"""Walks through what happens to sets of ConfigMaps in an SKR: their owners, users and failures, in any order.

A domain derives from ObjectWalk; its test takes the steps that hypothesis chooses, and checks what they end in.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis import strategies as st

from kube_runtime import Client, KubeError, NotFound, NotServed
from kube_simulation import ApiRequest, Drop, Refuse, RequestRecord, Rule, Simulation
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager_api import names
from tests.clocks import ManualClock
from tests.kinds import CONFIG_MAPS
from tests.modules import Document

SKR = names.SKR_NAMESPACE
OWNERS, OBJECTS, VALUES = ("first", "second"), ("one", "two", "three"), ("1", "2")
_OWNER, _OBJECT = st.sampled_from(OWNERS), st.sampled_from(OBJECTS)
Step = tuple[object, ...]
Matcher = Callable[[ApiRequest], bool]
STEPS = st.one_of(
    st.tuples(st.just("write"), _OWNER, st.dictionaries(_OBJECT, st.sampled_from(VALUES))),
    st.tuples(st.sampled_from(["reconcile", "remove"]), _OWNER),
    st.tuples(st.sampled_from(["refuse", "lose"]), _OWNER, st.integers(0, 3)),
    st.tuples(st.sampled_from(["edit", "delete"]), _OBJECT, st.booleans()),
    st.tuples(st.sampled_from(["restart", "wait"])),
)


def skipping(number: int, matches: Matcher) -> Matcher:
    """Return what matches the same requests but for the first ones."""
    others = iter(range(number))
    return lambda request: matches(request) and next(others, None) is None


def failure(what: str, after: int, matches: Matcher) -> Rule:
    """Return the rule by which requests are refused, or their answers lost, after so many others."""
    chosen = skipping(after, matches)
    return Refuse(chosen) if what == "refuse" else Drop(chosen, after=True)


def config_map(name: str, value: str) -> Document:
    metadata = {"name": name, "namespace": SKR}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


@dataclass
class ObjectWalk(ABC):
    """One walk. `objects` are those that each owner wants, by its name, with their values."""

    interval: ClassVar[float]
    plural: ClassVar[str]
    """The owners' resource."""
    simulation: Simulation
    clock: ManualClock
    skr: Client
    objects: dict[str, dict[str, str]] = field(default_factory=dict, init=False)

    @abstractmethod
    async def write(self, owner: str, objects: dict[str, str]) -> dict[str, str] | None:
        """Have an owner want these objects; return what it wants, None where it is being deleted."""

    @abstractmethod
    async def remove(self, owner: str) -> None: ...

    @abstractmethod
    async def reconcile(self, owner: str, *causes: Hashable) -> None: ...

    @abstractmethod
    async def restart(self) -> None: ...

    @abstractmethod
    async def check(self) -> None:
        """Check that the objects in the SKR are those that are wanted."""

    @abstractmethod
    async def is_gone(self, owner: str) -> bool: ...

    async def walk(self, steps: Iterable[Step]) -> None:
        """Take steps, and check what they end in: at rest, and once all owners are removed."""
        for step in steps:
            await self.take(step)
        for _ in range(3):
            await self.take(("wait",))
        await self.check()
        before = self.writes
        await self.take(("wait",))
        assert self.writes == before, "nothing is written any more"
        for owner in OWNERS:
            await self.take(("remove", owner))
        for _ in range(2):
            await self.take(("wait",))
        assert await self.values() == {}
        assert all([await self.is_gone(owner) for owner in OWNERS])

    async def take(self, step: Step) -> None:
        match step:
            case ("write", str(owner), dict(objects)):
                if (wanted := await self.write(owner, objects)) is not None:
                    self.objects[owner] = wanted
            case ("reconcile", str(owner)):
                await self.reconcile(owner)
            case ("remove", str(owner)):
                with suppress(NotFound, NotServed):
                    await self.remove(owner)
                self.objects.pop(owner, None)
            case ("refuse" | "lose" as what, str(owner), int(after)):
                await self._fail(owner, after, what)
            case ("edit" | "delete" as what, str(name), bool(is_reported)):
                await self._change(what, name, is_reported=is_reported)
            case ("wait",):
                self.clock.advance(self.interval)
                for owner in OWNERS:
                    await self.reconcile(owner)
            case _:
                await self.restart()

    @property
    def writes(self) -> int:
        """How many writes there were in the SKR, and of owners in KCP."""
        return len(self.simulation.requests(self._is_write))

    async def values(self) -> dict[str, str]:
        """Return the values of all objects in the SKR."""
        found = (await self.skr.list(CONFIG_MAPS, SKR)).items
        return {each["metadata"]["name"]: each["data"]["value"] for each in found}

    def _is_write(self, request: ApiRequest | RequestRecord) -> bool:
        return request.is_write and (request.cluster == "skr" or self.plural in request.path)

    async def _fail(self, owner: str, after: int, what: str) -> None:
        """Reconcile, and have a write refused, or its answer lost."""
        rule, (kcp, skr) = failure(what, after, self._is_write), map(self.simulation.cluster, ("kcp", "skr"))
        with kcp.ruled_by(rule), skr.ruled_by(rule), suppress(KubeError):
            await self.reconcile(owner)

    async def _change(self, what: str, name: str, *, is_reported: bool) -> None:
        """Have a user change or delete an object; the Watcher reports it, or does not."""
        with suppress(NotFound, NotServed):
            metadata = (await self.skr.get(CONFIG_MAPS, name, SKR))["metadata"]
            if what == "edit":
                await self.skr.merge_patch(CONFIG_MAPS, name, {"data": {"value": "edited"}}, SKR)
            else:
                await self.skr.delete(CONFIG_MAPS, name, SKR)
            reference, operation = ObjectReference("", "ConfigMap", SKR, name), "UPDATE" if what == "edit" else "DELETE"
            change = ObjectChanged("demo", reference, operation, metadata["uid"], metadata["resourceVersion"])
            for owner in OWNERS if is_reported else ():
                await self.reconcile(owner, change)
