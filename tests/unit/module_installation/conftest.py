"""The controller of Manifests on simulated clusters."""

from collections.abc import AsyncIterator

import pytest

from kube_simulation import Simulation
from tests.clusters import simulated_clusters
from tests.manifest_clusters import Modules


@pytest.fixture
def namespace() -> str:
    return "kyma-system"


@pytest.fixture
async def world(simulation: Simulation, namespace: str) -> AsyncIterator[Modules]:
    async with (
        simulated_clusters(simulation) as (kcp, skr),
        Modules(kcp, skr, namespace=namespace) as world,
    ):
        yield world
