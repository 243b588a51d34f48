"""SyncResources of one module on simulated clusters, alone or beside the Manifests of modules."""

from collections.abc import AsyncIterator

import pytest

from kube_simulation import Simulation
from tests.clusters import simulated_clusters
from tests.manifest_clusters import Modules
from tests.unit.sync_resource.clusters import Syncing, prepare, syncing


@pytest.fixture
async def world(simulation: Simulation) -> AsyncIterator[Syncing]:
    async with syncing(simulation) as made, made.process():
        yield made


@pytest.fixture
async def both(simulation: Simulation) -> AsyncIterator[tuple[Modules, Syncing]]:
    async with simulated_clusters(simulation) as (kcp, skr), Modules(kcp, skr) as modules:
        await prepare(kcp, "cloud-resources", "garden")
        syncing = Syncing(kcp, skr)
        async with syncing.process():
            yield modules, syncing
