"""SyncResources of one module of one Kyma, on a simulated control plane and SKR."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from prometheus_client import CollectorRegistry

from kube_runtime import SYSTEM_CLOCK, Client, Clock, Manager, ObjectKey, Result
from kube_simulation import Simulation
from lifecycle_manager.contract.resources import KYMAS, MODULE_POLICIES, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.sync_resource import SyncResourceSettings, setup
from lifecycle_manager_api import find, names
from lifecycle_manager_api.documents import plain
from tests import builders
from tests.clusters import Clusters, simulated_clusters
from tests.kinds import CONFIG_MAPS
from tests.policies import ANYTHING

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE


async def has_modules(kcp: Client, *modules: str) -> None:
    """Set the modules in the status of the Kyma."""
    status = {"status": {"modules": [builders.module_status(each) for each in modules]}}
    await kcp.merge_patch(KYMAS, "demo", status, KCP, subresource="status", field_manager="test")


@dataclass(eq=False)
class Syncing(Clusters):
    unprotected: str | None = ""
    clock: Clock = SYSTEM_CLOCK

    def start(self) -> None:
        """Begin with a process that knows nothing."""
        self.manager = Manager(self.kcp, events=self.events, clock=self.clock)
        latency = ChangeLatency(CollectorRegistry(), self.clock)
        self.controller = setup(
            self.manager,
            cast("Connections", self),
            latency,
            SyncResourceSettings(pull_secret="login", max_per_module=3),
            unprotected=lambda: self.unprotected,
        )

    async def write(
        self, name: str, *objects: str, annotations: dict[str, str] | None = None, finalizer: bool = False, **spec: Any
    ) -> None:
        text = "---\n".join(
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {each}, namespace: {SKR}}}\n" for each in objects
        )
        document = {
            "metadata": {
                "name": name,
                "namespace": KCP,
                "annotations": annotations or {},
                "finalizers": [names.SYNC_RESOURCE_FINALIZER] if finalizer else [],
            },
            "spec": {"kyma": "demo", "module": "cloud-resources", "resource": text, **spec},
        }
        await self.kcp.apply(SYNC_RESOURCES, name, document, KCP, field_manager="test")

    async def reconcile(self, name: str, *causes: Hashable) -> Result:
        await self.see(SYNC_RESOURCES, None)
        return await self.controller.reconcile_now(ObjectKey(KCP, name), *causes)

    async def change_of(self, name: str, operation: str) -> ObjectChanged:
        """Return the signal that a ConfigMap is about to be changed."""
        metadata = (await self.skr.get(CONFIG_MAPS, name, SKR))["metadata"]
        reference = ObjectReference("", "ConfigMap", SKR, name)
        return ObjectChanged("demo", reference, operation, metadata["uid"], metadata["resourceVersion"])

    async def reason(self, name: str) -> str:
        ready = find((await self.kcp.get(SYNC_RESOURCES, name, KCP)).status.conditions, "Ready")
        assert ready is not None
        return ready.reason

    async def objects(self) -> set[str]:
        """Return the names of the ConfigMaps in the SKR."""
        return {each["metadata"]["name"] for each in (await self.skr.list(CONFIG_MAPS, SKR)).items}


async def prepare(kcp: Client, *modules: str) -> None:
    """Create a Kyma with these modules, and a policy by which `cloud-resources` may have anything."""
    kyma = {"metadata": {"name": "demo", "namespace": KCP}, "spec": {"channel": "regular", "modules": []}}
    await kcp.apply(KYMAS, "demo", kyma, KCP, field_manager="test")
    await has_modules(kcp, *modules)
    policy = {"metadata": {"name": "cloud-resources", "namespace": KCP}, "spec": plain(ANYTHING)}
    await kcp.apply(MODULE_POLICIES, "cloud-resources", policy, KCP, field_manager="test")


@asynccontextmanager
async def syncing(simulation: Simulation, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[Syncing]:
    """Open clusters with a Kyma that has the module; its controller is not started yet."""
    async with simulated_clusters(simulation) as (kcp, skr):
        await prepare(kcp, "cloud-resources")
        yield Syncing(kcp, skr, clock=clock)
