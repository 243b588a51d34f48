"""One controller on a Manager, with a control plane and an SKR; `access` stands for Connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kube_runtime import Client, Controller, Manager, ObjectKey, Resource
from kube_simulation import Simulation
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds
from tests.waiting import eventually
from tests.world import NAMESPACE, OPTIONS, PERMISSIVE, EventLog


@dataclass(eq=False)
class Clusters:
    """A control plane and one SKR. `access` is what keeps the Lifecycle Manager from the SKR, None for nothing.

    `without_secret_for` is for how many seconds the access Secret is gone, where it is.
    """

    kcp: Client
    skr: Client
    access: Exception | None = field(default=None, kw_only=True)
    without_secret_for: float = field(default=600.0, kw_only=True)
    manager: Manager = field(init=False)
    controller: Controller[ObjectKey, Any] = field(init=False)
    events: EventLog = field(init=False)

    def __post_init__(self) -> None:
        self.events = EventLog(self.kcp)

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator[Client]:
        """Lend the client of the SKR, as Connections do."""
        if self.access is not None:
            raise self.access
        yield self.skr

    def have_access(self, _kyma: str) -> bool:
        """Tell whether there is an access Secret, as Connections do."""
        return not isinstance(self.access, AccessSecretMissing)

    def missing_for(self, kyma: str, *, now: float) -> float | None:
        """Return for how long there is no access Secret, as Connections do."""
        assert now
        return None if self.have_access(kyma) else self.without_secret_for

    async def see(self, resource: Resource[Any], namespace: str | None = names.KCP_NAMESPACE) -> None:
        """Have the informer of a kind see what there is."""

        async def seen() -> bool:
            stored = {resource.version_of(each) for each in (await self.kcp.list(resource, namespace)).items}
            informer = self.manager.informer(resource, namespace=namespace)
            return stored == {resource.version_of(each) for each in informer.cache.list()}

        await eventually(seen, what="the informer is up to date", every=0.002)

    def start(self) -> None:
        """Declare the controller on a Manager that knows nothing."""
        raise NotImplementedError

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        self.start()
        async with self.manager.background():
            await self.manager.wait_synced()
            yield


async def simulated_client(simulation: Simulation, name: str) -> Client:
    """Return a client of a simulated cluster, with the namespace that modules live in."""
    cluster = simulation.cluster(name)
    for namespace in (names.KCP_NAMESPACE, names.SKR_NAMESPACE):
        cluster.create({**NAMESPACE, "metadata": {"name": namespace}})
    return await Client.from_kubeconfig(cluster.kubeconfig, options=OPTIONS, policy=PERMISSIVE)


async def simulated_control_plane(simulation: Simulation) -> Client:
    simulation.cluster("kcp").create(*all_crds())
    return await simulated_client(simulation, "kcp")


@asynccontextmanager
async def simulated_clusters(simulation: Simulation) -> AsyncIterator[tuple[Client, Client]]:
    """Open clients of a simulated control plane and of an SKR."""
    async with await simulated_control_plane(simulation) as kcp, await simulated_client(simulation, "skr") as skr:
        yield kcp, skr
