"""Requests of the whole service, in compressed time: what a quiet fleet costs, and a new version for all."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from benchmarks.new_cluster_requests import CHOSEN, MODULES, VERSIONS, catalog
from kube_runtime import Manager
from kube_runtime.leases.lease import LEASES
from kube_simulation import ApiRequest, Delay, Drop, SimulatedCluster
from kube_simulation.requests import Answer
from kube_simulation.rules import Proceed, Rule
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.conditions import EVENT_PATH_BROKEN, WATCHER_READY, WATCHER_SILENT
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import ObjectChanged, WatcherEventReceived
from lifecycle_manager.kyma.controller import SKR_KYMA
from lifecycle_manager.replicas import ReplicaSettings, sharding_of
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr_webhook import CanaryTimes, WatcherTimes
from lifecycle_manager.skr_webhook.canary import FIELD_MANAGER as CANARY_MANAGER
from lifecycle_manager_api import State, find, names
from tests import builders
from tests.clocks import LoopClock
from tests.waiting import eventually
from tests.world import KCP, NAMESPACE, World

NAMES = ("one", "two", "three", "four", "five")
MINUTES = 10
IN_KCP = Counter({"update leases": MINUTES * 24})
"""The requests to KCP of ten minutes, however many Kymas there are: one write for each renewal of the replica's own."""

READS_OF_TEN_MINUTES = 30
"""The requests to each cluster beside canaries: the objects of the Watcher twice, each module and the catalog once."""

RECONCILES_OF_TEN_MINUTES = 26
"""The reconciles of each Watcher: two for a canary, one for each heartbeat, and those of the interval."""

ANY_PORT = "127.0.0.1:0"
OPTIONS: dict[str, Any] = {
    "health_probe_bind_address": ANY_PORT,
    "metrics_bind_address": ANY_PORT,
    "kyma_skr_listener_bind_address": ANY_PORT,
    "replica_bind_address": ANY_PORT,
    "allow_insecure_kubeconfigs": True,
    "allow_unprotected_modules": True,
}


class Watcher(Rule):
    """The Watcher of a cluster: each change of the ServiceAccount becomes an event, and it sends heartbeats."""

    def __init__(self, kyma: str, manager: Manager, cluster: SimulatedCluster) -> None:
        self._kyma = kyma
        self._manager = manager
        self._cluster = cluster

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if request.method == "PATCH" and "/serviceaccounts/" in request.path:
            self.send(is_canary=True)
        return answer

    def send(self, *, is_canary: bool = False) -> None:
        at = self._manager.clock.monotonic()
        self._manager.publish(WatcherEventReceived(self._kyma, is_canary=is_canary, at=at))

    async def send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(WatcherTimes().heartbeat)
            if self in self._cluster.rules:
                self.send()


@asynccontextmanager
async def service(world: World) -> AsyncIterator[Manager]:
    settings, stopping = Settings(OPTIONS), asyncio.Event()
    sharding = sharding_of(settings[ReplicaSettings], world.kcp)
    async with (
        lifecycle_manager(settings, world.kcp, sharding, clock=LoopClock()) as manager,
        asyncio.TaskGroup() as tasks,
    ):
        for name in NAMES:
            watcher = Watcher(name, manager, cluster := world.cluster(name))
            cluster.add_rule(watcher)
            manager.runs(watcher.send_heartbeats, name=f"Watcher of {name}")
        tasks.create_task(manager.run(stopping))
        yield manager
        stopping.set()


async def settled(world: World) -> None:
    """Return once every Kyma is ready, and a minute has passed after that."""

    async def are_ready() -> bool:
        return all(each.status.state is State.READY for each in (await world.kcp.list(KYMAS, KCP)).items)

    await eventually(are_ready, every=5.0)
    await asyncio.sleep(60)


@asynccontextmanager
async def quiet_fleet() -> AsyncIterator[tuple[World, Manager]]:
    """Run the service until its clusters are settled."""
    async with catalog() as world:
        world.cluster("kcp").create({**NAMESPACE, "metadata": {"name": names.KCP_LEASE_NAMESPACE}})
        for name in NAMES:
            await world.register(name, *CHOSEN)
        async with service(world) as manager:
            await settled(world)
            yield world, manager


@pytest.mark.looptime
async def test_quiet_fleet_renews_a_lease_and_tests_what_no_event_proves() -> None:
    async with quiet_fleet() as (world, manager):
        since, reconciled = world.requests, reconciles_of_watchers(manager)
        await asyncio.sleep(MINUTES * 60)
        reconciled = reconciles_of_watchers(manager) - reconciled
        records = [each for each in world.simulation.records if each.number > since and each.verb != "watch"]
    in_kcp = Counter(f"{each.verb} {each.resource.partition('.')[0]}" for each in records if each.cluster == "kcp")
    assert in_kcp - IN_KCP == Counter()
    assert in_kcp.keys() == IN_KCP.keys()
    in_skrs = [each for each in records if each.cluster != "kcp"]
    canaries = [each for each in in_skrs if each.manager == CANARY_MANAGER]
    expected = MINUTES * 60 / CanaryTimes().interval * len(NAMES)
    assert 0.95 * expected <= len(canaries) <= expected + len(NAMES)
    assert reconciled <= RECONCILES_OF_TEN_MINUTES * len(NAMES)
    assert len(in_skrs) - len(canaries) <= READS_OF_TEN_MINUTES * len(NAMES)
    assert {each.resource for each in in_skrs if each.is_write} == {"serviceaccounts"}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("broken", "reason"),
    [("canaries", EVENT_PATH_BROKEN), ("events", WATCHER_SILENT), ("requests", "ClusterUnreachable")],
)
async def test_path_of_a_watcher_in_order_that_breaks_is_reported_in_time(broken: str, reason: str) -> None:
    """Silence within a minute, and a path on which only heartbeats arrive within three."""
    async with quiet_fleet() as (world, manager):
        skr = world.cluster("one")
        rules, skr.rules = skr.rules, (Drop(),) if broken == "requests" else ()
        for _ in range(6 if broken == "canaries" else 2):
            if broken == "canaries":
                send_heartbeat(manager)
            await asyncio.sleep(30)
        assert await reason_of_watcher(world, "one") == reason
        assert await reason_of_watcher(world, "two") == WATCHER_READY
        skr.rules = rules
        send_heartbeat(manager)
        await asyncio.sleep(60)
        assert await reason_of_watcher(world, "one") == WATCHER_READY


@pytest.mark.looptime
async def test_canaries_of_clusters_that_respond_late_follow_each_other() -> None:
    async with quiet_fleet() as (world, _):
        for name in NAMES:
            world.cluster(name).add_rule(Delay(lambda request: request.name == "skr-webhook", seconds=3.0))
        await asyncio.sleep(60)
        since = world.requests
        await asyncio.sleep(3 * CanaryTimes().interval)
        records = [each for each in world.simulation.records if each.number > since]
        reasons = {await reason_of_watcher(world, name) for name in NAMES}
    sent = Counter(each.cluster for each in records if each.manager == CANARY_MANAGER)
    assert all(sent[name] == 3 for name in NAMES), sent
    assert reasons == {WATCHER_READY}


@pytest.mark.looptime
async def test_watcher_that_another_replica_has_gets_no_further_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quiet_fleet() as (world, manager):
        since = world.requests
        monkeypatch.setattr(type(manager.sharding), "owns", lambda _, owner: owner != "one")
        manager.begin(gained=(), lost={"one"})
        await asyncio.sleep(CanaryTimes().interval + 1)
        records = [each for each in world.simulation.records if each.number > since]
    assert {each.cluster for each in records if each.manager == CANARY_MANAGER} == {*NAMES} - {"one"}


@pytest.mark.looptime
async def test_new_version_is_five_writes_for_each_cluster() -> None:
    """The status of the Kyma is Processing and Ready again; the record of the catalog is one of its own."""
    async with quiet_fleet() as (world, _):
        since, began = world.requests, asyncio.get_running_loop().time()
        await world.offer(builders.release(CHOSEN[0], regular=VERSIONS[1]))
        await eventually(partial(are_at, world, VERSIONS[1]), every=0.05)
        seconds = asyncio.get_running_loop().time() - began
        await asyncio.sleep(30)
        written = writes_to_kcp(world, since)
    assert written == {
        ("lifecycle-manager", "manifests", ""): len(NAMES),
        ("lifecycle-manager", "manifests", "status"): len(NAMES),
        ("lifecycle-manager", "kymas", "status"): 2 * len(NAMES),
        ("lifecycle-manager-catalog", "kymas", "status"): len(NAMES),
        ("kube-runtime", "events", ""): len(NAMES),
    }
    assert seconds <= 0.5


@pytest.mark.looptime
async def test_added_module_is_ready_in_the_kyma_in_half_a_second_by_two_status_writes() -> None:
    async with quiet_fleet() as (world, manager):
        await world.choose(*CHOSEN, MODULES[5], name="one")
        since, began = world.requests, asyncio.get_running_loop().time()
        manager.publish(ObjectChanged("one", SKR_KYMA, "UPDATE"))
        await eventually(partial(is_ready_with, world, MODULES[5]), every=0.02)
        seconds = asyncio.get_running_loop().time() - began
        await asyncio.sleep(10)
        written = writes_to_kcp(world, since)
    assert written == {
        ("lifecycle-manager", "manifests", ""): 1,
        ("lifecycle-manager", "manifests", "status"): 2,
        ("lifecycle-manager", "kymas", "status"): 2,
        ("lifecycle-manager", "events", ""): 1,
    }
    assert seconds <= 0.5


def reconciles_of_watchers(manager: Manager) -> float:
    name = "controller_runtime_reconcile_total"
    found = (each for metric in manager.registry.collect() for each in metric.samples if each.name == name)
    return sum(each.value for each in found if each.labels["controller"] == "watcher")


def send_heartbeat(manager: Manager) -> None:
    manager.publish(WatcherEventReceived("one", is_canary=False, at=manager.clock.monotonic()))


async def reason_of_watcher(world: World, name: str) -> str:
    found = find((await world.in_kcp(name)).status.conditions, "SKRWebhook")
    return found.reason if found is not None else ""


def writes_to_kcp(world: World, since: int) -> Counter[tuple[str, str, str]]:
    """Count what Lifecycle Manager has written but Leases, by field manager, kind and subresource."""
    return Counter(
        (each.manager, each.resource.partition(".")[0], each.subresource)
        for each in world.writes_to("kcp", since)
        if each.resource != LEASES.plural_name and each.manager != "team"
    )


async def is_ready_with(world: World, module: str) -> bool:
    """Tell whether the Kyma in KCP and that in the cluster say that a module is ready."""
    found = [*(await world.in_kcp("one")).status.modules, *(await world.in_skr("one")).status.modules]
    return [each.state for each in found if each.name == module] == [State.READY, State.READY]


async def are_at(world: World, version: str) -> bool:
    """Tell whether all Kymas say that the first module is ready in a version."""
    found = (await world.kcp.list(KYMAS, KCP)).items
    modules = [next(each for each in kyma.status.modules if each.name == CHOSEN[0]) for kyma in found]
    return all((each.state, each.version) == (State.READY, version) for each in modules)
