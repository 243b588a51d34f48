"""What replicas share: a key is worked on where its Kyma belongs, finished before it is given away, begun anew."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kube_runtime import ObjectKey, Result, RuntimeMetrics
from kube_runtime.leases import LeaseLost, LeaseTiming
from lifecycle_manager.controllers import Controllers, Reconcilers
from lifecycle_manager.informers import Informers
from lifecycle_manager.mandatory_modules import ReleaseKey
from lifecycle_manager.module_config import ModuleKey
from lifecycle_manager.replicas import Shared
from lifecycle_manager.settings import Settings
from lifecycle_manager.telemetry import requeue_reasons
from lifecycle_manager.wiring import Wiring
from lifecycle_manager_api import names
from tests import builders
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE
OPTIONS: dict[str, Any] = {}
ROOMS = tuple(room.name for room in fields(Reconcilers))


class Room:
    """Notes what it is to reconcile and to forget; goes on when it is let."""

    key = ObjectKey(KCP, "authority")

    def __init__(self) -> None:
        self.reconciled: list[Any] = []
        self.forgotten: list[Any] = []
        self.let = asyncio.Event()
        self.let.set()
        self.fails_with: Exception | None = None

    async def reconcile(self, key: Any) -> Result:
        self.reconciled.append(key)
        await self.let.wait()
        if self.fails_with is not None:
            raise self.fails_with
        return Result()

    def forget(self, key: Any) -> None:
        self.forgotten.append(key)

    wake = forget


class Replica:
    """Controllers over rooms that only take notes, and the Kymas that are theirs."""

    def __init__(self, *mine: str) -> None:
        self.mine = set(mine)
        client: Any = None
        self.informers = Informers.on(client)
        self.rooms = {name: Room() for name in ROOMS}
        reconcilers: Any = SimpleNamespace(**self.rooms)
        connections: Any = None
        registry = CollectorRegistry()
        self.controllers = Controllers(
            reconcilers,
            connections,
            self.informers,
            Settings(**OPTIONS),
            RuntimeMetrics(registry),
            requeue_reasons(registry),
            lambda name: name in self.mine,
        )
        self.wiring = Wiring(self.informers, self.controllers)

    def has(self, kyma: str) -> None:
        """Put a Kyma with a module and all that belongs to it into the caches."""
        for informer, thing in (
            (self.informers.kymas, builders.kyma(kyma)),
            (self.informers.manifests, builders.manifest(kyma=kyma)),
            (self.informers.module_configs, builders.module_config(f"{kyma}-config", kyma=kyma)),
            (self.informers.sync_resources, builders.sync_resource(f"{kyma}-sync", kyma=kyma)),
        ):
            cache: Any = informer.cache
            cache.put(ObjectKey(KCP, thing.metadata.name), thing)

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None, None]:
        async with asyncio.TaskGroup() as tasks:
            self.controllers.start_in(tasks)
            yield
            await self.controllers.shutdown(5)

    def reconciled(self) -> dict[str, list[Any]]:
        shared = {name: room.reconciled for name, room in self.rooms.items() if name != "authority"}
        return {name: keys for name, keys in shared.items() if keys}


def all_keys_of(kyma: str) -> dict[str, list[Any]]:
    key = ObjectKey(KCP, kyma)
    return {
        "kyma": [key],
        "catalog": [key],
        "mandatory": [key],
        "skr_webhook": [key],
        "module_config": [ModuleKey(KCP, kyma, "cloud-resources")],
        "manifest": [ObjectKey(KCP, f"{kyma}-cloud-resources")],
        "sync_resource": [ObjectKey(KCP, f"{kyma}-sync")],
    }


async def test_replica_that_gets_a_kyma_looks_at_all_of_it_and_at_nothing_else() -> None:
    replica = Replica("mine", "other")
    for kyma in ("mine", "other"):
        replica.has(kyma)
    async with replica.at_work():
        replica.wiring.begin(["mine"])
    assert replica.reconciled() == all_keys_of("mine")


async def test_what_is_left_of_a_kyma_that_has_gone_is_looked_at_too() -> None:
    replica = Replica("gone")
    replica.has("gone")
    kymas: Any = replica.informers.kymas.cache
    kymas.remove(ObjectKey(KCP, "gone"))
    manifests: Any = replica.informers.manifests.cache
    nobodys = builders.manifest(kyma="nobody", labels={names.KYMA_NAME: ""})
    manifests.put(ObjectKey(KCP, nobodys.metadata.name), nobodys)
    assert set(replica.wiring.kyma_names()) == {"gone"}
    async with replica.at_work():
        replica.wiring.begin(replica.wiring.kyma_names())
        await eventually(lambda: not len(replica.controllers.manifest.queue))
    left = {name: all_keys_of("gone")[name] for name in ("module_config", "manifest", "sync_resource")}
    assert replica.reconciled() == left


async def test_what_was_remembered_of_a_kyma_is_forgotten_before_it_is_looked_at_again() -> None:
    replica = Replica("mine")
    replica.has("mine")
    replica.wiring.begin(["mine"])
    forgotten = {name: room.forgotten for name, room in replica.rooms.items() if room.forgotten}
    expected = all_keys_of("mine")
    assert forgotten == {
        name: expected[name] for name in ("catalog", "skr_webhook", "module_config", "manifest", "sync_resource")
    }


async def test_key_of_another_replicas_kyma_is_dropped() -> None:
    replica = Replica("mine")
    for kyma in ("mine", "other"):
        replica.has(kyma)
    async with replica.at_work():
        replica.wiring.begin(["mine", "other"])
        replica.controllers.mandatory_retirement.queue.add(ReleaseKey("ModuleTemplate", KCP, "warden"))
        replica.controllers.watcher_status.queue.add(ObjectKey(KCP, "watcher"))
    assert replica.reconciled() == all_keys_of("mine")


async def test_what_has_gone_is_forgotten_by_every_replica() -> None:
    replica = Replica()
    async with replica.at_work():
        replica.controllers.manifest.queue.add(ObjectKey(KCP, "gone"))
        replica.controllers.sync_resource.queue.add(ObjectKey(KCP, "gone"))
    assert replica.reconciled() == {"manifest": [ObjectKey(KCP, "gone")], "sync_resource": [ObjectKey(KCP, "gone")]}


@pytest.mark.parametrize("room", ["kyma", "manifest", "sync_resource", "module_config"])
async def test_kyma_is_given_away_when_nothing_of_it_is_under_way(room: str) -> None:
    replica = Replica("leaves", "stays")
    for kyma in ("leaves", "stays"):
        replica.has(kyma)
    held = replica.rooms[room]
    held.let.clear()
    async with replica.at_work():
        (key,) = all_keys_of("leaves")[room]
        getattr(replica.controllers, room).queue.add(key)
        await eventually(lambda: held.reconciled)
        await replica.wiring.finish(lambda name: name == "stays")

        finishing = asyncio.ensure_future(replica.wiring.finish(lambda name: name == "leaves"))
        await asyncio.sleep(0.01)
        assert not finishing.done()
        held.let.set()
        async with asyncio.timeout(60):
            await finishing


LOST = LeaseLost("others may have taken over")


@pytest.mark.parametrize("error", [LOST, ExceptionGroup("at once", [LOST, LOST])])
async def test_work_that_the_fence_stopped_is_left_to_whoever_has_the_kyma_now(error: Exception) -> None:
    replica = Replica("mine")
    replica.rooms["kyma"].fails_with = error
    async with replica.at_work():
        replica.controllers.kyma.queue.add(ObjectKey(KCP, "mine"))
    assert replica.controllers.kyma.failures == {}


async def test_other_failure_beside_it_is_one() -> None:
    replica = Replica("mine")
    replica.rooms["kyma"].fails_with = ExceptionGroup("at once", [LOST, ValueError("something else")])
    async with replica.at_work():
        replica.controllers.kyma.queue.add(ObjectKey(KCP, "mine"))
    assert list(replica.controllers.kyma.failures) == [ObjectKey(KCP, "mine")]


class Members:
    """A membership that gives out what a test says."""

    identity = "first-life"
    owned: frozenset[str] = frozenset()

    def owns(self, name: str) -> bool:
        return name in self.owned


def test_only_what_was_gained_is_begun_and_all_of_it_after_the_membership_had_lapsed() -> None:
    begun: list[set[str]] = []
    client: Any = None
    shared: Any = Shared(client, name="replica", succeeds=False, address="", timing=LeaseTiming())
    shared.membership = members = Members()
    shared._work = SimpleNamespace(kyma_names=lambda: ("a", "b", "c"), begin=lambda names: begun.append(set(names)))
    for owned in ({"a"}, {"a", "b"}, {"b"}, {"a", "b"}):
        members.owned = frozenset(owned)
        shared._look()
    members.identity = "second-life"
    shared._look()
    assert begun == [{"a"}, {"b"}, set(), {"a"}, {"a", "b"}]
