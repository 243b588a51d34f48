"""The one fixture language: a simulated KCP and simulated SKRs, and a Manager to which a test adds domains by `setup`.

A test drives the controllers turn by turn: `world.reconcile("demo")` waits until the caches hold what KCP holds, and
reconciles once. With `world.running()` the Manager runs by itself, with all triggers, until the block ends.

    async with open_world() as world:
        await world.register("demo", "cloud-resources")
        await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
        await world.introduced()
        assert await world.manifests() == {"demo-cloud-resources": "0.1.0"}

Another domain: `catalog_sync.setup(world.manager, world.connections, ...)`, then `world.turn("catalog", key)`.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec

from kube_runtime import (
    Client,
    ClientOptions,
    EventRecorder,
    Informer,
    KubeconfigPolicy,
    Manager,
    ObjectKey,
    Resource,
    Result,
)
from kube_simulation import ApiRequest, Refused, SimulatedCluster, Simulation, serve_simulation
from lifecycle_manager import kyma
from lifecycle_manager.contract.conditions import CATALOG, REMOVED, WEBHOOK, write_condition
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.kyma import KymaSettings, Timeouts
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.skr import controller as skr
from lifecycle_manager.skr.access import ACCESS_SECRETS, OUR_SECRETS
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import ConditionStatus, Kyma, names
from lifecycle_manager_api.crds import all_crds
from tests import builders
from tests.clocks import ManualClock
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
PARTS: dict[str, Resource[Any]] = {each.kind: each for each in (MANIFESTS, MODULE_CONFIGS, SYNC_RESOURCES)}
NO_API = Refused(403, "Forbidden", "no api today")
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}
OPTIONS = ClientOptions(qps=0, timeout_seconds=60, attempts=1)
PERMISSIVE = KubeconfigPolicy.permissive()


def is_manifest(module: str) -> Callable[[ApiRequest], bool]:
    return lambda request: request.is_write and request.name.endswith(module) and "manifests" in request.path


def key_of(name: str) -> ObjectKey:
    return ObjectKey(KCP, name)


class EventLog(EventRecorder):
    """Keeps Events instead of sending them, as pairs of reason and note."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, controller="test", instance="test")
        self.in_kcp: list[tuple[str, str]] = []
        self.in_skr: list[tuple[str, str]] = []

    def record(self, resource: Any, item: Any, reason: str, note: str, **_: Any) -> None:
        self.in_kcp.append((reason, note))

    async def write_to(self, client: Client, resource: Any, item: Any, reason: str, note: str, **_: Any) -> None:
        self.in_skr.append((reason, note))


@dataclass(frozen=True)
class Watched:
    informer: Informer[Any]
    namespace: str | None
    selectors: dict[str, Any]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Item]


_LISTED = msgspec.json.Decoder(_List)


class WatchingManager(Manager):
    """A Manager that knows its informers, so that a test can wait until they are current."""

    watched: dict[int, Watched]

    def informer(self, resource: Resource[Any], **options: Any) -> Informer[Any]:
        """Return the informer, and note what it selects."""
        informer = super().informer(resource, **options)
        selectors = {key: value for key, value in options.items() if key.endswith("_selector")}
        namespace = options.get("namespace", KCP) if resource.namespaced else None
        self.watched[id(informer)] = Watched(informer, namespace, selectors)
        return informer


@dataclass(eq=False)
class World:
    """What a test does and sees. `unseen` are plural names of kinds in KCP whose informers need not be current."""

    kcp: Client
    simulation: Simulation
    settings: KymaSettings
    stack: AsyncExitStack
    clock: ManualClock = field(default_factory=ManualClock)
    unseen: set[str] = field(default_factory=set)
    clients: dict[str, Client] = field(default_factory=dict)
    is_started: bool = False

    def __post_init__(self) -> None:
        self.recorder = EventLog(self.kcp)
        self.manager = WatchingManager(self.kcp, clock=self.clock, namespace=KCP, events=self.recorder)
        self.manager.watched = {}
        secrets = self.manager.informer(SECRETS, label_selector=OUR_SECRETS, indexes=(ACCESS_SECRETS,))
        self.connections = Connections(secrets, OPTIONS, PERMISSIVE)
        skr.setup(self.manager, self.connections)
        self.offers = Offers(self.manager.informer(MODULE_TEMPLATES), self.manager.informer(DATED_RELEASE_METAS))
        kyma.setup(self.manager, self.connections, offers=self.offers, settings=self.settings)

    @property
    def events(self) -> list[tuple[str, str]]:
        """Return the Events in KCP, as pairs of reason and note."""
        return self.recorder.in_kcp

    @property
    def skr_events(self) -> list[tuple[str, str]]:
        """Return the Events in SKRs, as pairs of reason and note."""
        return self.recorder.in_skr

    def cluster(self, name: str) -> SimulatedCluster:
        """Return a cluster, to see its requests or to make them fail."""
        return self.simulation.cluster(name)

    async def skr(self, name: str = "demo") -> Client:
        if name not in self.clients:
            config = self.cluster(name).kubeconfig
            self.clients[name] = await Client.from_kubeconfig(config, options=OPTIONS, policy=PERMISSIVE)
        return self.clients[name]

    async def register(self, name: str = "demo", *modules: str, cluster: str = "", **labels: str) -> None:
        """Create a Kyma and the Secret with the access to its SKR."""
        marks = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": marks}, "data": self.access(cluster or name)}
        await self.kcp.create(SECRETS, secret, KCP, field_manager="broker")
        spec = {"channel": "regular", "modules": [{"name": each, "managed": True} for each in modules]}
        document = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self.kcp.create(KYMAS, document, KCP, field_manager="broker")

    async def offer(self, *items: Any) -> None:
        for item in items:
            resource: Resource[Any] = MODULE_TEMPLATES if item.KIND == "ModuleTemplate" else MODULE_RELEASE_METAS
            name, document = item.metadata.name, builders.as_written(item)
            await self.kcp.apply(resource, name, document, KCP, field_manager="team")

    async def create(self, *items: Any) -> None:
        """Create Manifests, ModuleConfigs and SyncResources in KCP, without their status."""
        for item in items:
            await self.kcp.create(PARTS[item.KIND], builders.as_written(item), KCP, field_manager="other")

    async def move(self, cluster: str, name: str = "demo") -> None:
        """Change the Secret of a Kyma to that of another cluster."""
        await self.kcp.merge_patch(SECRETS, f"kubeconfig-{name}", {"data": self.access(cluster)}, KCP)

    async def label(self, label: str, value: str | None, name: str = "demo") -> None:
        """Set a label of a Kyma in KCP; None removes it."""
        await self.kcp.merge_patch(KYMAS, name, {"metadata": {"labels": {label: value}}}, KCP)

    async def change_crd(self, change: dict[str, Any], subresource: str | None = None) -> None:
        await self.kcp.merge_patch(
            CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, change, subresource=subresource, field_manager="kubectl"
        )

    async def choose(self, *modules: str, name: str = "demo", **more: Any) -> None:
        spec = {"modules": [{"name": each, "managed": True, **more} for each in modules]}
        await (await self.skr(name)).merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, {"spec": spec}, SKR)

    async def sync_caches(self) -> None:
        """Wait until the caches hold what KCP holds. The first call starts the informers."""
        if not self.is_started:
            self.is_started = True
            await self.stack.enter_async_context(self.manager.background())
        for watched in self.manager.watched.values():
            plural = watched.informer.resource.plural
            if plural not in self.unseen:
                await eventually(partial(self._is_current, watched), what=f"{plural} are current", every=0.001)

    async def turn(self, controller: str, key: Hashable, *causes: Hashable) -> Result:
        """Reconcile a key of a controller once, with current caches."""
        await self.sync_caches()
        return await self.manager.controllers[controller].reconcile_now(key, *causes)

    async def reconcile(self, name: str = "demo", *, times: int = 1) -> Result:
        """Reconcile a Kyma, each time with current caches."""
        result = Result()
        for _ in range(times):
            result = await self.turn("kyma", key_of(name))
        return result

    async def introduced(self, name: str = "demo") -> None:
        """Reconcile a new Kyma until its SKR has what it needs: finalizer, Kyma CR, status."""
        await self.reconcile(name, times=3)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the Manager: informers, triggers, controllers."""
        assert not self.is_started, "the world is driven turn by turn"
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.manager.run(stopping))
            try:
                yield
            finally:
                stopping.set()

    async def without_parts(self, *parts: str, name: str = "demo") -> None:
        """Report parts of a Kyma as removed, in place of their controllers: by default all of them."""
        for part in parts or (WEBHOOK, CATALOG):
            removed: tuple[ConditionStatus, str, str] = ("False", REMOVED, "")
            kyma = await self.in_kcp(name)
            await write_condition(self.kcp, kyma, part, removed, now=self.clock.now(), field_manager=part)

    async def uninstall(self) -> None:
        """Remove the finalizers of Manifests that are being deleted, in place of their controller."""
        for each in (await self.kcp.list(MANIFESTS, KCP)).items:
            if each.metadata.being_deleted:
                await self.kcp.merge_patch(MANIFESTS, each.metadata.name, {"metadata": {"finalizers": []}}, KCP)

    async def in_kcp(self, name: str = "demo") -> Kyma:
        return await self.kcp.get(KYMAS, name, KCP)

    async def in_skr(self, name: str = "demo") -> Kyma:
        return await (await self.skr(name)).get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)

    async def manifests(self) -> dict[str, str]:
        """Return the versions in the Manifests, by their names."""
        return {each.metadata.name: each.spec.version for each in (await self.kcp.list(MANIFESTS, KCP)).items}

    @property
    def requests(self) -> int:
        """The number of requests so far, to count later ones from here."""
        return self.simulation.records.count

    def writes_to(self, cluster: str, since: int = 0) -> list[Any]:
        return self.cluster(cluster).requests(lambda record: record.is_write, since=since)

    async def close(self) -> None:
        await self.connections.close()
        for client in self.clients.values():
            await client.close()

    def access(self, cluster: str) -> dict[str, str]:
        config = msgspec.json.encode(self.cluster(cluster).kubeconfig)
        return {"config": base64.b64encode(config).decode()}

    def _is_current(self, watched: Watched) -> bool:
        resource = watched.informer.resource
        stored = self.cluster("kcp").answer_to("GET", _list_path(resource, watched))
        assert stored.code == 200, stored
        return _versions(stored.body) == {
            resource.key_of(each): resource.version_of(each) for each in watched.informer.cache.list()
        }


@asynccontextmanager
async def open_world(**settings: Any) -> AsyncIterator[World]:
    """Open a world with an empty KCP and the domain `kyma`; `settings` are KymaSettings, by default without delays."""
    defaults: dict[str, Any] = {
        "timeouts": Timeouts(unreachable=timedelta(0)),
        "rollout": RolloutSettings(max_delay=timedelta(0), min_window=timedelta(0)),
    }
    async with AsyncExitStack() as stack:
        simulation = await stack.enter_async_context(serve_simulation())
        cluster = simulation.cluster("kcp")
        cluster.create({**NAMESPACE, "metadata": {"name": KCP}}, *all_crds())
        kcp = await Client.from_kubeconfig(cluster.kubeconfig, options=OPTIONS, policy=PERMISSIVE)
        await stack.enter_async_context(kcp)
        world = World(kcp, simulation, KymaSettings(**{**defaults, **settings}), stack)
        stack.push_async_callback(world.close)
        yield world


def _list_path(resource: Resource[Any], watched: Watched) -> str:
    parameters = {"labelSelector": "label_selector", "fieldSelector": "field_selector"}
    given = {name: watched.selectors[option] for name, option in parameters.items() if option in watched.selectors}
    return f"{resource.path(watched.namespace)}?{urlencode(given)}"


def _versions(listed: bytes) -> dict[ObjectKey, str]:
    return {
        ObjectKey(each.metadata.namespace, each.metadata.name): each.metadata.resource_version
        for each in _LISTED.decode(listed).items
    }
