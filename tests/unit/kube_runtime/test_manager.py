"""A Manager: triggers, causes, state, sharding, signals, and the order of start and stop. On a simulated API server."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kube_runtime import (
    Causes,
    Change,
    Client,
    Controller,
    Manager,
    ManagerOptions,
    ObjectKey,
    Priority,
    Resource,
    Result,
    RetryPolicy,
    TriggerMistaken,
)
from kube_runtime.leases.lease import LeaseLost
from kube_runtime.leases.lease_sharding import LeaseSharding
from kube_runtime.sharding import ALONE, Alone, Sharding, Work
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

QUICK = RetryPolicy(base_seconds=0.001, max_seconds=0.01, rate=0)
NAMESPACE = "default"


def key(name: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, name)


def config_map(name: str, value: str = "x") -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"value": value}}


@dataclass
class Memory:
    """The state of a key: how often it was reconciled."""

    rounds: int = 0


@dataclass
class Reconciler:
    """Notes what it reconciles, waits where a test wants that, and fails as a test says."""

    reconciled: list[tuple[str, tuple[Any, ...], int]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    failures: list[Exception] = field(default_factory=list)
    result: Result = field(default_factory=Result)

    def __post_init__(self) -> None:
        self.gate.set()

    async def reconcile(self, key: ObjectKey, causes: Causes, state: Memory) -> Result:
        state.rounds += 1
        self.reconciled.append((key.name, tuple(causes), state.rounds))
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        return self.result

    def names(self) -> list[str]:
        return [name for name, _, _ in self.reconciled]


@dataclass
class Owned(Alone):
    """A sharding that gives out what a test says."""

    mine: set[str] = field(default_factory=set)
    work: Work | None = None

    def owns(self, owner: str) -> bool:
        return owner in self.mine

    def check(self) -> None:
        """Let every write pass."""

    async def run(self, work: Work) -> None:
        self.work = work
        work.begin(frozenset(self.mine), ())
        await asyncio.Event().wait()

    def change(self, *mine: str) -> None:
        assert self.work is not None
        before, self.mine = self.mine, set(mine)
        self.work.begin(self.mine - before, before - self.mine)


def controller_of(manager: Manager, reconciler: Reconciler, **options: Any) -> Controller[ObjectKey, Memory]:
    controller: Controller[ObjectKey, Memory] = manager.controller("test", state=Memory, **options)
    controller.watches(CONFIG_MAPS)
    controller.reconciles(reconciler.reconcile)
    return controller


class Joining(Alone):
    """A replica whose share the others do not know yet."""

    has_begun = False


def manager_on(client: Client, *, probes: Sequence[tuple[str, int]] = (), **given: Any) -> Manager:
    return Manager(client, ManagerOptions(retry=QUICK, probes=probes), namespace=NAMESPACE, **given)


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[None]:
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(stopping))
        await eventually(lambda: manager.working)
        await asyncio.sleep(0)
        yield
        stopping.set()


async def put(client: Client, name: str, value: str = "x") -> dict[str, Any]:
    return await client.apply(CONFIG_MAPS, name, config_map(name, value), NAMESPACE, field_manager="test")


@asynccontextmanager
async def reconciling(
    client: Client, *names: str, reconciler: Reconciler | None = None, sharding: Sharding = ALONE, **options: Any
) -> AsyncIterator[tuple[Reconciler, Controller[ObjectKey, Memory]]]:
    """Run a manager with one controller beside objects of these names."""
    for name in names:
        await put(client, name)
    manager, reconciler = manager_on(client, sharding=sharding), reconciler or Reconciler()
    controller = controller_of(manager, reconciler, **options)
    async with running(manager):
        yield reconciler, controller


async def test_what_is_there_at_the_start_is_reconciled_and_what_changes_later(client: Client) -> None:
    async with reconciling(client, "early") as (reconciler, _):
        await eventually(lambda: reconciler.names() == ["early"])
        await put(client, "late")
        await eventually(lambda: reconciler.names() == ["early", "late"])


async def test_changes_enqueue_the_keys_that_they_concern_with_their_cause(client: Client) -> None:
    def value_changed(change: Change[dict[str, Any]]) -> bool:
        return change.old is None or change.new is None or change.old["data"] != change.new["data"]

    await put(client, "source")
    manager, reconciler = manager_on(client), Reconciler()
    controller: Controller[ObjectKey, Memory] = manager.controller("test", state=Memory)
    controller.watches(CONFIG_MAPS, to=lambda _: [key("one"), key("two")], when=value_changed, cause="source")
    controller.reconciles(reconciler.reconcile)
    async with running(manager):
        labels = {"metadata": {"labels": {"other": "label"}}}
        await client.merge_patch(CONFIG_MAPS, "source", labels, NAMESPACE)
        await put(client, "source", "y")
        await eventually(lambda: len(reconciler.reconciled) == 2)
    assert reconciler.reconciled == [("one", ("source",), 1), ("two", ("source",), 1)]


@dataclass(frozen=True)
class Ping:
    name: str


async def test_signal_is_delivered_by_type_and_counts_the_keys_it_enqueued(client: Client) -> None:
    manager, reconciler = manager_on(client), Reconciler()
    controller: Controller[ObjectKey, Memory] = manager.controller("test", state=Memory)
    controller.receives(Ping, to=lambda ping: [key(ping.name)] if ping.name else ())
    controller.reconciles(reconciler.reconcile)
    received: list[Ping] = []
    manager.on(Ping, received.append)
    async with running(manager):
        assert manager.publish(Ping("a")) == 1
        assert manager.publish(Ping("")) == 0
        assert manager.publish("nobody receives texts") == 0
        await eventually(lambda: reconciler.reconciled)
    assert reconciler.reconciled == [("a", (Ping("a"),), 1)]
    assert received == [Ping("a"), Ping("")]


async def test_signal_that_does_not_matter_waits_for_the_next_reconcile(client: Client) -> None:
    manager, reconciler = manager_on(client), Reconciler()
    controller: Controller[ObjectKey, Memory] = manager.controller("test", state=Memory)
    controller.receives(Ping, to=lambda _: [key("a")], when=lambda ping: ping.name == "urgent")
    controller.reconciles(reconciler.reconcile)
    async with running(manager):
        assert manager.publish(Ping("may wait")) == 0
        assert manager.publish(Ping("urgent")) == 1
        await eventually(lambda: reconciler.reconciled)
    assert reconciler.reconciled == [("a", (Ping("may wait"), Ping("urgent")), 1)]


async def test_state_of_a_key_lasts_from_one_reconcile_to_the_next(client: Client) -> None:
    async with reconciling(client, "a") as (reconciler, controller):
        await eventually(lambda: len(reconciler.reconciled) == 1)
        controller.enqueue(key("a"), "again")
        await eventually(lambda: len(reconciler.reconciled) == 2)
        assert controller.state(key("a")) == Memory(2)
        assert controller.state(key("b")) is None
    assert reconciler.reconciled[-1] == ("a", ("again",), 2)


async def test_state_that_a_reconcile_forgets_is_dropped(client: Client) -> None:
    async with reconciling(client, "a", reconciler=Reconciler(result=Result(forget=True))) as (reconciler, controller):
        await eventually(lambda: len(reconciler.reconciled) == 1)
        controller.enqueue(key("a"), "again")
        await eventually(lambda: len(reconciler.reconciled) == 2 and controller.state(key("a")) is None)
    assert reconciler.reconciled[-1] == ("a", ("again",), 1)


async def test_state_of_an_object_that_is_deleted_is_dropped(client: Client) -> None:
    async with reconciling(client, "a") as (reconciler, controller):
        await eventually(lambda: controller.state(key("a")) is not None)
        await client.delete(CONFIG_MAPS, "a", NAMESPACE)
        await eventually(lambda: len(reconciler.reconciled) == 2 and controller.state(key("a")) is None)
    assert reconciler.reconciled[-1] == ("a", (), 1)


async def test_object_that_replaces_another_of_its_name_has_a_new_state(client: Client) -> None:
    await put(client, "a")
    manager, reconciler = manager_on(client), Reconciler()
    controller = controller_of(manager, reconciler)
    async with running(manager):
        await eventually(lambda: controller.state(key("a")) is not None)
        reconciler.gate.clear()
        controller.enqueue(key("a"))
        await eventually(lambda: len(reconciler.reconciled) == 2)
        await client.delete(CONFIG_MAPS, "a", NAMESPACE)
        again = await put(client, "a")
        informer = manager.informer(CONFIG_MAPS)
        await eventually(lambda: (informer.get(key("a")) or again)["metadata"]["uid"] == again["metadata"]["uid"])
        reconciler.gate.set()
        await eventually(lambda: len(reconciler.reconciled) >= 3)
    assert [rounds for _, _, rounds in reconciler.reconciled[:3]] == [1, 2, 1]


async def test_object_of_a_restored_server_is_reconciled_whatever_matters(client: Client) -> None:
    before = await put(client, "a")
    manager, reconciler = manager_on(client), Reconciler()
    controller: Controller[ObjectKey, Memory] = manager.controller("test", state=Memory)
    controller.watches(CONFIG_MAPS, when=lambda _: False)
    controller.reconciles(reconciler.reconcile)
    async with running(manager):
        await eventually(lambda: reconciler.names() == ["a"])
        manager.informer(CONFIG_MAPS)._notify(Change(before, {**before}, may_be_restored=True))  # noqa: SLF001
        await eventually(lambda: reconciler.names() == ["a", "a"])


async def test_key_that_returns_from_another_replica_starts_from_scratch(client: Client) -> None:
    sharding = Owned({"a", "b"})
    async with reconciling(client, "a", "b", sharding=sharding) as (reconciler, controller):
        await eventually(lambda: len(reconciler.reconciled) == 2)
        sharding.change("b")
        assert controller.state(key("a")) is None
        controller.state_or_new(key("a")).rounds = 7  # somebody leaves a note for it meanwhile
        sharding.change("a", "b")
        await eventually(lambda: len(reconciler.reconciled) == 3)
        assert reconciler.reconciled[2] == ("a", (), 1)
        assert controller.state(key("b")) == Memory(1)


async def test_key_that_moves_away_under_its_reconcile_and_returns_has_a_new_state(client: Client) -> None:
    sharding, reconciler = Owned({"a"}), Reconciler()
    reconciler.gate.clear()
    async with reconciling(client, "a", reconciler=reconciler, sharding=sharding):
        await eventually(lambda: len(reconciler.reconciled) == 1)
        sharding.change()
        sharding.change("a")
        reconciler.gate.set()
        await eventually(lambda: len(reconciler.reconciled) == 2)
    assert [rounds for _, _, rounds in reconciler.reconciled] == [1, 1]


async def test_key_of_another_replica_takes_no_worker_until_it_is_gained(client: Client) -> None:
    sharding = Owned({"mine"})
    async with reconciling(client, sharding=sharding) as (reconciler, controller):
        controller.enqueue(key("theirs"), "cause")
        controller.enqueue(key("theirs"), after=5.0)
        assert controller.queue.keys() == frozenset()

        sharding.change("mine", "theirs")
        await eventually(lambda: bool(reconciler.reconciled))

    assert reconciler.reconciled == [("theirs", ("cause",), 1)]


async def test_key_of_another_replica_is_dropped(client: Client) -> None:
    async with reconciling(client, sharding=Owned({"mine"})) as (reconciler, _):
        for name in ("other", "mine"):
            await put(client, name)
        await eventually(lambda: reconciler.reconciled)
    assert reconciler.names() == ["mine"]


async def test_key_that_is_gained_has_the_causes_that_came_before(client: Client) -> None:
    sharding = Owned()
    async with reconciling(client, "a", "b", sharding=sharding) as (reconciler, controller):
        for cause in ("first", "second"):
            for name in ("a", "b"):
                controller.enqueue(key(name), cause)
            await controller.queue.drained()
        sharding.change("a")
        await eventually(lambda: reconciler.reconciled)
        await controller.queue.drained()
        sharding.change("a", "b")
        await eventually(lambda: len(reconciler.reconciled) == 2)
        sharding.change()
        sharding.change("a", "b")
        await eventually(lambda: len(reconciler.reconciled) == 4)
    both = ("first", "second")
    assert reconciler.reconciled[:2] == [("a", both, 1), ("b", both, 1)]
    assert {causes for _, causes, _ in reconciler.reconciled[2:]} == {()}


async def test_causes_of_a_reconcile_that_the_fence_stopped_are_not_lost(client: Client) -> None:
    sharding = Owned({"a"})
    async with reconciling(client, "a", sharding=sharding) as (reconciler, controller):
        await eventually(lambda: reconciler.reconciled)
        reconciler.failures.append(LeaseLost("others may have taken over"))
        controller.enqueue(key("a"), "event")
        await eventually(lambda: len(reconciler.reconciled) == 2)
        await controller.queue.drained()
        sharding.change()
        sharding.change("a")
        await eventually(lambda: len(reconciler.reconciled) == 3)
    assert [causes for _, causes, _ in reconciler.reconciled] == [(), ("event",), ("event",)]


async def test_key_without_an_owner_is_reconciled_by_every_replica(client: Client) -> None:
    async with reconciling(client, "a", sharding=Owned(), owner=lambda _: "") as (reconciler, _):
        await eventually(lambda: reconciler.names() == ["a"])


async def test_replica_that_gains_an_owner_begins_with_all_its_keys_and_no_others(client: Client) -> None:
    for name in ("a-1", "a-2", "b-1"):
        await put(client, name)
    sharding, reconciler = Owned({"b"}), Reconciler()
    manager = manager_on(client, sharding=sharding)
    controller_of(manager, reconciler, owner=lambda it: it.name.partition("-")[0])
    async with running(manager):
        await eventually(lambda: reconciler.names() == ["b-1"])
        assert manager.owners() == {"a", "b"}
        sharding.change("a", "b")
        await eventually(lambda: len(reconciler.reconciled) == 3)
    assert reconciler.names()[1:] == ["a-1", "a-2"]


async def test_owner_is_given_away_when_nothing_of_it_is_under_way(client: Client) -> None:
    await put(client, "leaves")
    manager, reconciler = manager_on(client), Reconciler()
    controller_of(manager, reconciler)
    reconciler.gate.clear()
    async with running(manager):
        await eventually(lambda: reconciler.reconciled)
        await manager.finish(lambda owner: owner == "stays")

        finishing = asyncio.ensure_future(manager.finish(lambda owner: owner == "leaves"))
        await asyncio.sleep(0.01)
        assert not finishing.done()
        reconciler.gate.set()
        async with asyncio.timeout(60):
            await finishing


LOST = LeaseLost("others may have taken over")


@pytest.mark.parametrize("error", [LOST, ExceptionGroup("at once", [LOST, LOST])])
async def test_reconcile_that_the_fence_stopped_is_left_to_whoever_has_the_key_now(
    client: Client, error: Exception
) -> None:
    async with reconciling(client, "a", reconciler=Reconciler(failures=[error])) as (reconciler, controller):
        await eventually(lambda: reconciler.reconciled)
        await controller.queue.drained()
        assert controller.failures == {}
        assert controller.state(key("a")) is None
    assert len(reconciler.reconciled) == 1


async def test_other_failure_beside_a_lost_lease_is_retried(client: Client) -> None:
    both = ExceptionGroup("at once", [LOST, ValueError("something else")])
    async with reconciling(client, "a", reconciler=Reconciler(failures=[both])) as (reconciler, _):
        await eventually(lambda: len(reconciler.reconciled) == 2)


async def test_many_keys_of_a_start_are_enqueued_without_holding_the_loop(client: Client) -> None:
    manager = manager_on(client)
    controller = controller_of(manager, Reconciler(), owner=lambda _: "", exists=lambda _: True)
    controller.starts_with(lambda: [key(f"{number}") for number in range(1_200)])
    manager.begin((), ())
    assert len(controller.queue) == 50
    controller.enqueue(key("changed"))
    assert await controller.queue.get() == key("changed")
    await eventually(lambda: len(controller.queue) == 1_200)


class NoAccess(Exception):
    pass


async def test_error_that_waits_for_a_trigger_is_not_retried_and_keeps_its_causes(client: Client) -> None:
    await put(client, "a")
    manager, reconciler = manager_on(client), Reconciler(failures=[NoAccess()])
    controller = controller_of(manager, reconciler, not_retried=(NoAccess,))
    controller.starts_with(lambda: [key("a")], cause="start")
    async with running(manager):
        await eventually(lambda: reconciler.reconciled)
        await asyncio.sleep(0.05)
        assert len(reconciler.reconciled) == 1
        assert controller.failures == {}
        controller.enqueue(key("a"), "access")
        await eventually(lambda: len(reconciler.reconciled) == 2)
    assert reconciler.reconciled[-1] == ("a", ("start", "access"), 2)


async def test_outcome_of_each_reconcile_is_reported(client: Client) -> None:
    await put(client, "a")
    outcomes: list[tuple[str, Result | Exception]] = []
    error = ValueError("once")
    manager = manager_on(client, on_result=lambda name, outcome: outcomes.append((name, outcome)))
    controller_of(manager, Reconciler(failures=[error]))
    async with running(manager):
        await eventually(lambda: len(outcomes) == 2)
    assert outcomes == [("test", error), ("test", Result())]


async def test_causes_that_arrive_during_a_reconcile_can_be_seen(client: Client) -> None:
    reconciler = Reconciler()
    reconciler.gate.clear()
    async with reconciling(client, "a", reconciler=reconciler) as (_, controller):
        await eventually(lambda: reconciler.reconciled)
        controller.enqueue(key("a"), "more")
        assert controller.waiting_causes(key("a")) == Causes(["more"])
        reconciler.gate.set()


async def test_single_reconcile_outside_of_the_queue_raises_what_it_raises(client: Client) -> None:
    await put(client, "a")
    manager, reconciler = manager_on(client), Reconciler(failures=[ValueError("once")])
    controller = controller_of(manager, reconciler)
    async with manager.background():
        await manager.wait_synced()
        with pytest.raises(ValueError, match="once"):
            await controller.reconcile_now(key("a"))
        assert await controller.reconcile_now(key("a"), "again") == Result()
    assert reconciler.reconciled == [("a", (), 1), ("a", ("again",), 2)]


def test_informer_is_shared_by_all_that_watch_the_same(client: Client) -> None:
    manager = manager_on(client)

    assert manager.informer(CONFIG_MAPS) is manager.informer(CONFIG_MAPS, namespace=NAMESPACE)
    assert manager.informer(CONFIG_MAPS) is not manager.informer(CONFIG_MAPS, label_selector="some=label")


def test_controller_names_are_unique(client: Client) -> None:
    manager = manager_on(client)
    manager.controller("test")
    with pytest.raises(ValueError, match="'test'"):
        manager.controller("test")


async def test_start_and_stop_have_an_order(client: Client) -> None:
    await put(client, "a")
    happened: list[str] = []
    manager, reconciler = manager_on(client), Reconciler()
    informer = manager.informer(CONFIG_MAPS)
    controller = controller_of(manager, reconciler)

    async def prepare() -> None:
        happened.append(f"prepare with {len(informer.cache)}")

    def until_cancelled(name: str) -> Callable[[], Any]:
        async def run() -> None:
            happened.append(f"{name} starts")
            try:
                await asyncio.Event().wait()
            finally:
                happened.append(f"{name} stops after {len(reconciler.reconciled)}")

        return run

    manager.before_start(prepare)
    manager.runs(until_cancelled("task"), name="task")
    manager.serves(until_cancelled("server"), name="server")
    async with running(manager):
        await eventually(lambda: reconciler.reconciled)
        reconciler.gate.clear()
        controller.enqueue(key("a"))
        await eventually(lambda: len(reconciler.reconciled) == 2)
        controller.enqueue(key("b"))
        asyncio.get_running_loop().call_later(0.05, reconciler.gate.set)
    assert happened == [
        "task starts",
        "prepare with 1",
        "server starts",
        "server stops after 3",
        "task stops after 3",
    ]


async def fail() -> None:
    await asyncio.sleep(0.01)
    raise ValueError("broken")


async def await_what_is_cancelled() -> None:
    awaited = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_later(0.01, awaited.cancel)
    await awaited


async def await_what_is_cancelled_after_an_error_of_a_group() -> None:
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
    await await_what_is_cancelled()


FAILING = [
    (fail, ValueError),
    (await_what_is_cancelled, RuntimeError),
    (await_what_is_cancelled_after_an_error_of_a_group, RuntimeError),
]


@pytest.mark.parametrize("declare", [Manager.runs, Manager.serves])
@pytest.mark.parametrize(("work", "error"), FAILING)
async def test_failure_of_a_server_or_task_ends_the_manager_and_is_logged_by_name(
    client: Client, caplog: pytest.LogCaptureFixture, declare: Any, work: Any, error: type[Exception]
) -> None:
    manager = manager_on(client)
    controller_of(manager, Reconciler())
    declare(manager, work, name="events of replicas")
    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(60):
            await manager.run(asyncio.Event())
    assert raised.value.subgroup(error) is not None
    assert any(
        record.levelname == "ERROR" and record.getMessage().startswith("events of replicas failed")
        for record in caplog.records
    )


@pytest.mark.parametrize(("is_limited", "begun"), [(True, 16 + 2 * 25), (False, 2 * 100)])
async def test_controllers_share_a_limit_that_events_pass(
    client: Client, monkeypatch: pytest.MonkeyPatch, is_limited: bool, begun: int
) -> None:
    """A hundred workers each, and with the limit a quarter more for events: 16 of both begin, and those for events."""
    monkeypatch.setattr("kube_runtime.controller.shared_limit.PLACE_SECONDS", 3600.0)
    manager, reconciler = manager_on(client), Reconciler()
    controllers: list[Controller[ObjectKey, Memory]] = [
        manager.controller(name, state=Memory, concurrency=100, is_limited=is_limited) for name in ("one", "another")
    ]
    for each in controllers:
        each.reconciles(reconciler.reconcile)
    reconciler.gate.clear()
    async with running(manager):
        for each in controllers:
            for number in range(300):
                each.enqueue(key(f"{each.name}-{number}"), priority=Priority.EVENT)
        await eventually(lambda: len(reconciler.reconciled) == begun)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(reconciler.reconciled) == begun
        waiting = sum(manager.metrics.controller(each.name, 100).waiting_workers for each in controllers)
        assert waiting == (200 - 16 if is_limited else 0)
        reconciler.gate.set()


async def test_stop_during_the_start_is_heeded(client: Client) -> None:
    async def prepare() -> None:
        await asyncio.Event().wait()

    manager, stopping = manager_on(client), asyncio.Event()
    manager.before_start(prepare)
    asyncio.get_running_loop().call_later(0.05, stopping.set)
    async with asyncio.timeout(60):
        await manager.run(stopping)


async def test_controller_that_reconciles_nothing_is_a_mistake(client: Client) -> None:
    manager = manager_on(client)
    manager.controller("forgotten")
    with pytest.raises(ExceptionGroup) as raised:
        await manager.run(asyncio.Event())
    assert "forgotten" in str(raised.value.exceptions[0])


def for_objects(found: Any) -> list[ObjectKey]:
    return [ObjectKey(NAMESPACE, found["metadata"]["name"])]


def for_structs(found: Any) -> list[ObjectKey]:
    return [ObjectKey(NAMESPACE, found.name)]


def for_dicts(found: dict[str, Any]) -> list[ObjectKey]:
    return for_objects(found)


@pytest.mark.parametrize("mistaken", [{"to": for_objects}, {"to": for_structs}, {"when": for_objects}])
@pytest.mark.parametrize("there", [True, False])
async def test_trigger_that_takes_objects_ends_the_start(client: Client, mistaken: Any, *, there: bool) -> None:
    manager = manager_on(client)
    controller_of(manager, Reconciler()).watches(CONFIG_MAPS, **mistaken)
    if there:
        await put(client, "early")
    with pytest.raises(ExceptionGroup) as raised:
        await manager.run(asyncio.Event())
    assert raised.group_contains(TriggerMistaken, match="'test': a function of watches.. gets a Change")


def test_trigger_that_takes_objects_by_its_types_is_refused_where_it_is_declared(client: Client) -> None:
    controller = controller_of(manager_on(client), Reconciler())
    with pytest.raises(TriggerMistaken, match=r"'test': a function of watches.. gets a Change.*not dict"):
        controller.watches(CONFIG_MAPS, to=for_dicts)  # type: ignore[arg-type]  # an error of mypy where it is accepted
    with pytest.raises(TriggerMistaken, match="not dict"):
        controller.watches(CONFIG_MAPS, when=for_dicts)  # type: ignore[arg-type]  # the same


def for_either(change: Change[dict[str, Any]] | Change[ObjectKey]) -> list[ObjectKey]:
    raise NotImplementedError(change)


def for_some(change: Change[Any] | None) -> bool:
    raise NotImplementedError(change)


def for_plain(change: Change | None) -> bool:  # type: ignore[type-arg]
    raise NotImplementedError(change)


def for_documents(found: dict[str, Any] | list[Any]) -> bool:
    raise NotImplementedError(found)


def test_trigger_may_take_a_change_among_others(client: Client) -> None:
    controller = controller_of(manager_on(client), Reconciler())
    controller.watches(CONFIG_MAPS, to=for_either, when=for_some)
    controller.watches(CONFIG_MAPS, when=for_plain)
    with pytest.raises(TriggerMistaken, match="not dict or list"):
        controller.watches(CONFIG_MAPS, when=for_documents)  # type: ignore[arg-type]  # the same


async def test_trigger_that_fails_at_an_object_does_not_end_the_manager(client: Client) -> None:
    def failing(change: Change[dict[str, Any]]) -> list[ObjectKey]:
        raise TypeError(f"'{type(change.new)}' of another kind")

    await put(client, "early")
    manager, reconciler = manager_on(client), Reconciler()
    controller_of(manager, reconciler).watches(CONFIG_MAPS, to=failing)
    async with running(manager):
        await put(client, "late")
        await eventually(lambda: "late" in reconciler.names())


def _readiness(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_manager_is_ready_when_its_controllers_work_and_every_check_says_so(client: Client) -> None:
    manager = manager_on(client, probes=[("127.0.0.1", 0)])
    controller_of(manager, Reconciler())
    opened = False
    manager.check("door", lambda: opened)
    async with running(manager):
        (port,) = manager.probe_ports
        assert await asyncio.to_thread(_readiness, port) == (503, "not ready: door\n")
        opened = True
        assert await asyncio.to_thread(_readiness, port) == (200, "ok\n")


async def test_manager_is_ready_once_it_has_begun_with_its_share(client: Client) -> None:
    sharding = Joining()
    manager = manager_on(client, probes=[("127.0.0.1", 0)], sharding=sharding)
    controller_of(manager, Reconciler())
    async with running(manager):
        (port,) = manager.probe_ports
        assert await asyncio.to_thread(_readiness, port) == (503, "not ready: sharding\n")
        sharding.has_begun = True
        assert await asyncio.to_thread(_readiness, port) == (200, "ok\n")


async def test_informer_that_is_not_required_does_not_hold_up_the_start(client: Client) -> None:
    missing: Resource[dict[str, Any]] = Resource.dynamic("example.com", "v1", "Thing", "things", namespaced=True)
    manager, reconciler = manager_on(client), Reconciler()
    manager.informer(missing, required=False)
    controller_of(manager, reconciler)
    async with running(manager):
        assert manager.working


def test_only_gained_owners_are_begun_and_all_after_the_membership_lapsed(client: Client) -> None:
    sharding, begun = LeaseSharding(client, namespace="default", group="g", name="r"), list[Any]()
    work = SimpleNamespace(owners=lambda: "abc", begin=lambda gained, lost: begun.append((set(gained), set(lost))))
    sharding._work = cast("Any", work)  # noqa: SLF001 - as `run` sets it
    for identity, mine in (*(("first-life", each) for each in ("a", "ab", "b", "ab")), ("second-life", "ac")):
        membership = SimpleNamespace(identity=identity, has_share=True, owns=set(mine).__contains__)
        sharding.membership = cast("Any", membership)
        sharding._compare()  # noqa: SLF001 - as the membership does at each change

    assert begun == [
        ({"a"}, set()),
        ({"b"}, set()),
        (set(), {"a"}),
        ({"a"}, set()),
        ({"a", "c"}, {"b"}),
    ]
