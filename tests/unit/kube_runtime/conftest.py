"""A client of the simulated API server that the plugin of kube_simulation serves."""

from collections.abc import AsyncIterator

import pytest

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_simulation import SimulatedCluster


@pytest.fixture
async def client(cluster: SimulatedCluster) -> AsyncIterator[Client]:
    policy = KubeconfigPolicy.permissive()
    async with await Client.from_kubeconfig(cluster.kubeconfig, options=ClientOptions(qps=0), policy=policy) as made:
        yield made
