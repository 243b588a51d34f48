"""Of another replica's objects an informer keeps an outline, and has them whole before this replica owns them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kube_runtime import (
    Causes,
    Change,
    Client,
    ClientOptions,
    Controller,
    Index,
    Informer,
    KubeconfigPolicy,
    Manager,
    NotFound,
    ObjectKey,
    Result,
)
from kube_runtime.informer import Outline
from kube_runtime.leases import LeaseSharding, LeaseTiming
from kube_simulation import ApiRequest, Refuse, SimulatedCluster, serve_simulation
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

NAMESPACE = "default"
TIMING = LeaseTiming(lease_seconds=120, act_seconds=100.0, renew_seconds=0.05)
NAMES = {f"object-{number}" for number in range(40)}
BY_TEXT: Index[dict[str, Any]] = Index("text", lambda item: filter(None, [item["data"].get("text")]))


def owner_of(item: dict[str, Any]) -> str:
    return str(item["data"].get("owner", ""))


OUTLINE: Outline[dict[str, Any]] = Outline(owner_of, lambda item: {**item, "data": {"owner": owner_of(item)}})


@dataclass
class Replica:
    """An informer of a replica that holds what a test says, and what it was notified of."""

    informer: Informer[dict[str, Any]]
    held: set[str]
    changes: list[Change[dict[str, Any]]] = field(default_factory=list)

    def text(self, name: str) -> str | None:
        found = self.informer.get(key(name))
        return None if found is None else found["data"].get("text", "no text")


def name_of(change: Change[dict[str, Any]]) -> str:
    return str((change.new or change.old or {})["metadata"]["name"])


def key(name: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, name)


async def put(client: Client, name: str, text: str, *, owner: str) -> None:
    document = {"metadata": {"name": name}, "data": {"owner": owner, "text": text}}
    await client.apply(CONFIG_MAPS, name, document, NAMESPACE, field_manager="test")


@asynccontextmanager
async def open_cluster() -> AsyncIterator[tuple[SimulatedCluster, Client]]:
    async with serve_simulation() as simulation:
        cluster, policy = simulation.cluster("one"), KubeconfigPolicy(allow_insecure=True)
        options = ClientOptions(qps=0)
        async with await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy) as client:
            yield cluster, client


@asynccontextmanager
async def replica_that_holds(client: Client, *owners: str) -> AsyncIterator[Replica]:
    held = {*owners}
    informer = Informer(
        client, CONFIG_MAPS, namespace=NAMESPACE, indexes=[BY_TEXT], outline=OUTLINE, holds=held.__contains__
    )
    replica = Replica(informer, held)
    informer.on_change(replica.changes.append)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(informer.run())
        await informer.wait_synced(10)
        yield replica
        running.cancel()


async def test_object_of_another_replica_is_kept_in_outline() -> None:
    async with open_cluster() as (_, client):
        await put(client, "mine", "a", owner="this")
        await put(client, "theirs", "a", owner="other")
        await put(client, "of-all", "a", owner="")
        async with replica_that_holds(client, "this") as replica:
            await put(client, "late", "b", owner="other")
            await eventually(lambda: replica.text("late") is not None)
            assert {name: replica.text(name) for name in ("mine", "theirs", "of-all", "late")} == {
                "mine": "a",
                "theirs": "no text",
                "of-all": "a",
                "late": "no text",
            }
            assert [each["metadata"]["name"] for each in replica.informer.by_index(BY_TEXT, "a")] == ["mine", "of-all"]
            assert replica.informer.is_outline(key("theirs"))
            assert not replica.informer.is_outline(key("mine"))


async def test_object_of_another_replica_is_read_where_it_is_needed_whole() -> None:
    async with open_cluster() as (_, client):
        await put(client, "mine", "a", owner="this")
        await put(client, "theirs", "a", owner="other")
        async with replica_that_holds(client, "this") as replica:
            cached = {each["metadata"]["name"]: each for each in replica.informer.list()}
            for each in cached.values():
                assert (await replica.informer.whole(each))["data"]["text"] == "a"
            assert replica.text("theirs") == "no text"
            await client.delete(CONFIG_MAPS, "theirs", NAMESPACE)
            with pytest.raises(NotFound):
                await replica.informer.whole(cached["theirs"])


async def test_gained_objects_are_whole_once_the_informer_is_complete() -> None:
    async with open_cluster() as (_, client):
        await put(client, "mine", "a", owner="this")
        await put(client, "theirs", "a", owner="other")
        async with replica_that_holds(client, "this") as replica:
            replica.changes.clear()
            replica.held.add("other")
            await replica.informer.complete()
            assert replica.text("theirs") == "a"
            assert len(replica.informer.by_index(BY_TEXT, "a")) == 2
            assert replica.changes == []  # nothing happened to the object
            await put(client, "theirs", "b", owner="other")
            await eventually(lambda: replica.text("theirs") == "b")


async def test_lost_objects_are_cut_down_once_the_informer_is_complete() -> None:
    async with open_cluster() as (cluster, client):
        await put(client, "mine", "a", owner="this")
        async with replica_that_holds(client, "this") as replica:
            replica.held.clear()
            with cluster.ruled_by(Refuse(lambda request: request.verb == "list")):  # no need to ask anybody
                await replica.informer.complete()
            assert replica.text("mine") == "no text"
            assert replica.informer.by_index(BY_TEXT, "a") == ()


async def test_list_that_fails_is_tried_again_until_the_informer_is_complete() -> None:
    async with open_cluster() as (cluster, client):
        await put(client, "theirs", "a", owner="other")
        async with replica_that_holds(client) as replica:
            replica.held.add("other")
            refused = Refuse(lambda request: request.verb == "list", times=4)
            with cluster.ruled_by(refused):
                await replica.informer.complete()
            assert replica.text("theirs") == "a"


async def test_object_that_is_deleted_meanwhile_does_not_come_back() -> None:
    async with open_cluster() as (_, client):
        await put(client, "theirs", "a", owner="other")
        async with replica_that_holds(client) as replica:
            replica.held.add("other")
            await client.delete(CONFIG_MAPS, "theirs", NAMESPACE)
            await replica.informer.complete()
            await eventually(lambda: replica.text("theirs") is None)
            await put(client, "theirs", "b", owner="other")
            await eventually(lambda: replica.text("theirs") == "b")


async def test_handler_without_changes_of_others_gets_those_of_whole_objects() -> None:
    async with open_cluster() as (_, client):
        await put(client, "mine", "a", owner="this")
        await put(client, "theirs", "a", owner="other")
        async with replica_that_holds(client, "this") as replica:
            seen: list[str] = []
            replica.informer.on_change(lambda change: seen.append(name_of(change)), of_others=False)
            assert seen == ["mine"]
            await client.delete(CONFIG_MAPS, "theirs", NAMESPACE)
            await put(client, "theirs", "b", owner="other")
            await put(client, "mine", "b", owner="this")
            await eventually(lambda: replica.text("mine") == "b")
            assert seen == ["mine", "mine"]
            await put(client, "mine", "c", owner="other")
            await put(client, "theirs", "c", owner="this")
            await eventually(lambda: replica.text("theirs") == "c")
            assert seen == ["mine", "mine", "theirs"]


@pytest.mark.parametrize("of_others", [False, True])
async def test_trigger_looks_at_objects_of_others_only_where_it_says_so(of_others: bool) -> None:
    async with open_cluster() as (_, client):
        held = {"this"}
        seen: list[str] = []

        async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            seen.append(key.name)
            return Result()

        manager = Manager(client, namespace=NAMESPACE, outlines={CONFIG_MAPS: OUTLINE}, sharding=Holding(held))
        controller: Controller[ObjectKey, None] = manager.controller("test", owner=lambda _: "")
        controller.watches(CONFIG_MAPS, of_others=of_others)
        controller.starts_with(tuple)
        controller.reconciles(reconcile)
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stopping))
            await eventually(lambda: manager.working)
            await put(client, "theirs", "a", owner="other")
            await put(client, "mine", "a", owner="this")
            await eventually(lambda: "mine" in seen)
            stopping.set()
        assert ("theirs" in seen) == of_others


@dataclass
class Holding:
    """A sharding whose process holds what a test says."""

    held: set[str]
    membership = None
    has_begun = True

    def owns(self, owner: str) -> bool:
        return not owner or owner in self.held

    def holds(self, owner: str) -> bool:
        return owner in self.held

    def check(self) -> None:
        """Let every write pass."""

    async def foresee(self) -> None:
        """Know it already."""

    async def run(self, work: Any) -> None:
        work.begin(frozenset(self.held), ())
        await asyncio.Event().wait()


@dataclass
class Process:
    """A replica with a controller that notes the texts with which it finds its keys."""

    manager: Manager
    texts: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def on(cls, client: Client, name: str) -> "Process":
        sharding = LeaseSharding(client, namespace=NAMESPACE, group="keepers", name=name, timing=TIMING)
        process = cls(Manager(client, namespace=NAMESPACE, outlines={CONFIG_MAPS: OUTLINE}, sharding=sharding))
        informer = process.manager.informer(CONFIG_MAPS)

        async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            found = informer.get(key)
            if found is not None:
                process.texts.setdefault(key.name, set()).add(found["data"].get("text", "no text"))
            return Result()

        controller: Controller[ObjectKey, None] = process.manager.controller("test")
        controller.watches(CONFIG_MAPS)
        controller.reconciles(reconcile)
        return process

    def owned(self) -> set[str]:
        return {each for each in NAMES if self.manager.sharding.owns(each)}

    def outlined(self) -> set[str]:
        return {each for each in NAMES if self.manager.informer(CONFIG_MAPS).is_outline(key(each))}

    def with_text(self, text: str) -> set[str]:
        return {name for name, texts in self.texts.items() if text in texts}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.manager.run(stopping))
            await eventually(lambda: self.manager.working)
            yield
            stopping.set()


async def test_replica_never_reconciles_an_outline() -> None:
    """Neither one that joins, nor one that takes over: what they own they have whole."""
    async with open_cluster() as (_, client):
        for name in NAMES:
            await put(client, name, "a", owner=name)
        first, second = Process.on(client, "first"), Process.on(client, "second")
        async with first.running():
            await eventually(lambda: set(first.texts) == NAMES)
            async with second.running():
                await eventually(lambda: second.owned() and first.owned() == NAMES - second.owned())
                await eventually(lambda: first.outlined() == second.owned())
                await eventually(lambda: second.outlined() == first.owned())
                for name in NAMES:
                    await put(client, name, "b", owner=name)
                await eventually(
                    lambda: first.with_text("b") == first.owned() and second.with_text("b") == second.owned()
                )
            await eventually(lambda: first.with_text("b") == NAMES)
            assert first.outlined() == set()
        assert not first.with_text("no text") | second.with_text("no text")


async def test_replica_that_joins_lists_once_what_the_others_then_give_away() -> None:
    async with open_cluster() as (cluster, client):
        for name in NAMES:
            await put(client, name, "a", owner=name)
        first, second = Process.on(client, "first"), Process.on(client, "second")
        lists: list[bool] = []

        def is_list(request: ApiRequest) -> bool:
            if request.verb == "list" and "configmaps" in request.path:
                lists.append(bool(second.owned()))
            return False

        async with first.running():
            await eventually(lambda: set(first.texts) == NAMES)
            with cluster.ruled_by(Refuse(is_list)):
                async with second.running():
                    await eventually(lambda: second.owned() and first.owned() == NAMES - second.owned())
                    assert lists == [False]
