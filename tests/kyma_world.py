"""Kymas, the reconcilers that look after them, a simulated control plane, and simulated user clusters."""

import base64
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from prometheus_client import CollectorRegistry

from kube_runtime import Client, ClientOptions, EventRecorder, KubeconfigPolicy, ObjectKey, Resource, Result
from kube_runtime.informer.cache import Cache
from kube_simulation import ApiRequest, Refused, SimulatedCluster, Simulation, serve_simulation
from lifecycle_manager.catalog_sync import CatalogReconciler
from lifecycle_manager.crd_installation import apply_crds
from lifecycle_manager.kyma import KymaReconciler, Patience
from lifecycle_manager.mandatory_modules import MandatoryInstallation, MandatoryRetirement, ReleaseKey, mandatory_index
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.resources import (
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
from lifecycle_manager.rollout import Schedule
from lifecycle_manager.rollout.maintenance import MaintenancePolicy
from lifecycle_manager.skr import Connections, access_index
from lifecycle_manager.telemetry import policy_readable
from lifecycle_manager_api import Kyma, Manifest, as_document, names
from tests import builders

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
NO_API = Refused(403, "Forbidden", "no api today")
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}


def is_manifest(module: str) -> Callable[[ApiRequest], bool]:
    """Match the writes of a module's Manifests."""
    return lambda request: request.is_write and request.name.endswith(module) and "manifests" in request.path


def kyma_of_manifest(manifest: Manifest) -> Iterable[str]:
    """Index a Manifest by its Kyma."""
    return [manifest.metadata.labels.get(names.KYMA_NAME, "")]


class Listed:
    """What stands for an informer: it sees what there is when it is told to look."""

    def __init__(self, kcp: Client, resource: Resource[Any], **indexes: Callable[[Any], Iterable[str]]) -> None:
        self.cache: Cache[Any] = Cache(indexes)
        self._kcp = kcp
        self._resource = resource

    async def look(self) -> None:
        """See all that there is, and nothing that is gone."""
        found = {self._resource.key_of(item): item for item in (await self._kcp.list(self._resource, KCP)).items}
        for key in set(self.cache.keys()) - found.keys():
            self.cache.remove(key)
        for key, item in found.items():
            self.cache.put(key, item)


@dataclass(eq=False)
class KymaWorld:
    """What a test does and sees. `unseen` are the informers that see nothing new."""

    kcp: Client
    simulation: Simulation
    clients: dict[str, Client]
    now: datetime = builders.NOW
    patience: Patience = field(default_factory=Patience)
    policy: str | None = None
    events: list[tuple[str, str]] = field(default_factory=list)
    told_users: list[tuple[str, str]] = field(default_factory=list)
    unseen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._listed = {
            "kymas": Listed(self.kcp, KYMAS),
            "templates": Listed(self.kcp, MODULE_TEMPLATES),
            "releases": Listed(self.kcp, DATED_RELEASE_METAS),
            "secrets": Listed(self.kcp, SECRETS, access=access_index),
            "manifests": Listed(self.kcp, MANIFESTS, kyma=kyma_of_manifest, mandatory=mandatory_index),
            "configs": Listed(self.kcp, MODULE_CONFIGS, kyma=lambda it: [it.spec.kyma]),
            "synced": Listed(self.kcp, SYNC_RESOURCES, kyma=lambda it: [it.spec.kyma]),
            "definitions": Listed(self.kcp, CUSTOM_RESOURCE_DEFINITIONS),
        }
        informers = SimpleNamespace(**cast("dict[str, Any]", self._listed))
        options = ClientOptions(qps=0, timeout_seconds=60, attempts=1)
        self.connections = Connections(informers.secrets, options, KubeconfigPolicy.permissive())
        offers = Offers(informers.templates, informers.releases)
        readable = policy_readable(CollectorRegistry())
        nothing = timedelta(0)
        self.schedule = Schedule(informers.releases, lambda: self.now, nothing, None, nothing, readable)
        recorder = cast("EventRecorder", self)
        self.kymas = KymaReconciler(
            self.kcp,
            self.connections,
            informers.kymas,
            offers,
            informers.manifests,
            informers.configs,
            informers.synced,
            informers.definitions,
            self.schedule,
            recorder,
            patience=self.patience,
        )
        self.catalogs = CatalogReconciler(
            self.kcp, self.connections, informers.kymas, offers, lambda: self.now, interval_seconds=0.0
        )
        self.mandatory = MandatoryInstallation(self.kcp, informers.kymas, offers, informers.manifests, recorder)

        self.retirement = MandatoryRetirement(
            self.kcp, informers.templates, informers.releases, offers, informers.manifests
        )

    def record(self, _resource: Any, _item: Any, reason: str, note: str, **_: Any) -> None:
        """Take an Event of the control plane."""
        self.events.append((reason, note))

    async def write_to(self, _skr: Client, _resource: Any, _item: Any, reason: str, note: str, **_: Any) -> None:
        """Take an Event of a user cluster."""
        self.told_users.append((reason, note))

    def cluster(self, name: str) -> SimulatedCluster:
        """Return a cluster to see what was asked of it, or to make things go wrong."""
        return self.simulation.cluster(name)

    async def skr(self, name: str = "demo") -> Client:
        """Return the client of a user of a cluster."""
        if name not in self.clients:
            options = ClientOptions(qps=0, timeout_seconds=60, attempts=1)
            policy = KubeconfigPolicy.permissive()
            config = self.cluster(name).kubeconfig
            self.clients[name] = await Client.from_kubeconfig(config, options=options, policy=policy)
        return self.clients[name]

    async def register(self, name: str = "demo", *modules: str, cluster: str = "", **labels: str) -> None:
        """Have a Kyma and the Secret with the access to its cluster."""
        marks = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        config = base64.b64encode(msgspec.json.encode(self.cluster(cluster or name).kubeconfig)).decode()
        secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": marks}, "data": {"config": config}}
        await self.kcp.create(SECRETS, secret, KCP, field_manager="broker")
        spec = {"channel": "regular", "modules": [{"name": each, "managed": True} for each in modules]}
        kyma = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self.kcp.create(KYMAS, kyma, KCP, field_manager="broker")

    async def offer(self, *items: Any) -> None:
        """Have ModuleTemplates and ModuleReleaseMetas in the control plane."""
        for item in items:
            document = as_document(item)
            kept = {key: document["metadata"][key] for key in ("name", "labels") if key in document["metadata"]}
            resource: Resource[Any] = MODULE_TEMPLATES if item.KIND == "ModuleTemplate" else MODULE_RELEASE_METAS
            await self.kcp.apply(resource, kept["name"], {**document, "metadata": kept}, KCP, field_manager="team")

    async def move(self, cluster: str, name: str = "demo") -> None:
        """Have the Secret of a Kyma lead to another cluster."""
        config = base64.b64encode(msgspec.json.encode(self.cluster(cluster).kubeconfig)).decode()
        await self.kcp.merge_patch(SECRETS, f"kubeconfig-{name}", {"data": {"config": config}}, KCP)

    async def label(self, label: str, value: str | None, name: str = "demo") -> None:
        """Set a label of a Kyma in the control plane, or take it off."""
        await self.kcp.merge_patch(KYMAS, name, {"metadata": {"labels": {label: value}}}, KCP)

    async def redefine(self, change: dict[str, Any], subresource: str | None = None) -> None:
        """Have an administrator of the control plane change its definition of Kymas."""
        await self.kcp.merge_patch(
            CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, change, subresource=subresource, field_manager="kubectl"
        )

    async def choose(self, *modules: str, name: str = "demo", **more: Any) -> None:
        """Have the users of a cluster choose modules."""
        spec = {"modules": [{"name": each, "managed": True, **more} for each in modules]}
        await (await self.skr(name)).merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, {"spec": spec}, SKR)

    async def look(self) -> None:
        """Have the informers see what there is."""
        for name, each in self._listed.items():
            if name not in self.unseen:
                await each.look()

    async def reconcile(self, name: str = "demo", *, times: int = 1) -> Result:
        """Have the Kyma looked after, each time with fresh caches. `policy` is the maintenance policy's text."""
        if self.policy is not None:
            self.schedule._policy = msgspec.json.decode(self.policy, type=MaintenancePolicy)
        result = Result()
        for _ in range(times):
            await self.look()
            result = await self.kymas.reconcile(ObjectKey(KCP, name))
        return result

    async def introduced(self, name: str = "demo") -> None:
        """Have a Kyma looked after until its cluster has what it needs: finalizer, introduction, upkeep."""
        await self.reconcile(name, times=3)

    async def bring_catalog(self, name: str = "demo") -> Result:
        """Have the catalog of a cluster looked after."""
        await self.look()
        return await self.catalogs.reconcile(ObjectKey(KCP, name))

    async def install_mandatory(self, name: str = "demo") -> None:
        """Have a Kyma given its mandatory modules."""
        await self.look()
        await self.mandatory.reconcile(ObjectKey(KCP, name))

    async def uninstall(self) -> None:
        """Have the Manifests let go that are being deleted: what looks after them is no part of this world."""
        for each in (await self.kcp.list(MANIFESTS, KCP)).items:
            if each.metadata.being_deleted:
                await self.kcp.merge_patch(MANIFESTS, each.metadata.name, {"metadata": {"finalizers": []}}, KCP)

    async def retire(self, kind: str, name: str) -> Result:
        """Have looked at what says that a module is mandatory, and is held or let go."""
        await self.look()
        return await self.retirement.reconcile(ReleaseKey(kind, KCP, name))

    async def in_kcp(self, name: str = "demo") -> Kyma:
        """Return a Kyma as it is in the control plane."""
        return await self.kcp.get(KYMAS, name, KCP)

    async def in_skr(self, name: str = "demo") -> Kyma:
        """Return the Kyma as its users see it."""
        return await (await self.skr(name)).get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)

    async def manifests(self) -> dict[str, str]:
        """Return the versions of the modules that are to be installed, by the names of their Manifests."""
        return {each.metadata.name: each.spec.version for each in (await self.kcp.list(MANIFESTS, KCP)).items}

    @property
    def asked(self) -> int:
        """How many requests there were; what comes later is counted from here."""
        return self.simulation.records.count

    def writes_to(self, cluster: str, since: int = 0) -> list[Any]:
        """Return the writes that a cluster was asked for."""
        return self.cluster(cluster).requests(lambda record: record.is_write, since=since)


@asynccontextmanager
async def kyma_world(**given: Any) -> AsyncIterator[KymaWorld]:
    """Open a world with an empty control plane."""
    async with serve_simulation() as simulation:
        control_plane = simulation.cluster("kcp")
        control_plane.create({**NAMESPACE, "metadata": {"name": KCP}})
        options = ClientOptions(qps=0, timeout_seconds=60, attempts=1)
        policy = KubeconfigPolicy.permissive()
        kcp = await Client.from_kubeconfig(control_plane.kubeconfig, options=options, policy=policy)
        await apply_crds(kcp)
        world = KymaWorld(kcp, simulation, {}, **given)
        try:
            yield world
        finally:
            await world.connections.close()
            for client in (kcp, *world.clients.values()):
                await client.close()
