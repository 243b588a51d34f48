"""A pytest plugin for operators, which pytest finds by itself where this package is installed.

    async def test_child_is_repaired(operating: Operating) -> None:
        async with operating(operator) as client:
            ...

The fixtures are asynchronous: `asyncio_mode = "auto"` of pytest-asyncio has them awaited.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from kube_crds import crd_of
from kube_runtime.client.client import Client
from kube_runtime.client.kubeconfig import KubeconfigPolicy
from kube_runtime.operator import Operator
from kube_simulation.cluster import SimulatedCluster
from kube_simulation.server import Simulation, serve_simulation

Operating = Callable[[Operator], AbstractAsyncContextManager[Client]]


@pytest.fixture
async def simulation() -> AsyncIterator[Simulation]:
    """Simulated clusters."""
    async with serve_simulation() as served:
        yield served


@pytest.fixture
async def cluster(simulation: Simulation) -> SimulatedCluster:
    """One simulated cluster: its requests, and rules by which it fails."""
    return simulation.cluster("test")


@pytest.fixture
async def operating(cluster: SimulatedCluster) -> Operating:
    """Runs an operator on the cluster, with its CRDs, in a block: `async with operating(operator) as client`."""

    @asynccontextmanager
    async def run(operator: Operator) -> AsyncIterator[Client]:
        cluster.create(*map(crd_of, operator.kinds))
        policy = KubeconfigPolicy(allow_insecure=True)
        async with (
            await Client.from_kubeconfig(cluster.kubeconfig, policy=policy) as client,
            operator.running(client),
        ):
            yield client

    return run
