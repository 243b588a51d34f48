"""A simulated cluster for each test, and a client of it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_runtime.simulation import SimulatedCluster, Simulation, serve_simulation


@pytest_asyncio.fixture
async def simulation() -> AsyncIterator[Simulation]:
    """A server that remembers little, so that forgetting can be tested."""
    async with serve_simulation(history=50, bookmark_seconds=0.05, records=100) as served:
        yield served


@pytest_asyncio.fixture
async def cluster(simulation: Simulation) -> SimulatedCluster:
    """One cluster."""
    return simulation.cluster("one")


@pytest_asyncio.fixture
async def client(cluster: SimulatedCluster) -> AsyncIterator[Client]:
    """A client of the cluster."""
    options = ClientOptions(qps=0, timeout_seconds=60, attempts=2, user_agent="tests/1")
    async with await Client.from_kubeconfig(
        cluster.kubeconfig, options=options, policy=KubeconfigPolicy(allow_insecure=True)
    ) as made:
        yield made
