"""The controller of Manifests on simulated clusters."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_simulation import Simulation, serve_simulation
from tests.manifest_world import World, simulated_client, simulated_control_plane


@pytest.fixture
async def simulation() -> AsyncIterator[Simulation]:
    async with serve_simulation() as served:
        yield served


@pytest.fixture
def namespace() -> str:
    """The namespace that modules share."""
    return "kyma-system"


@pytest.fixture
async def world(simulation: Simulation, tmp_path: Path, namespace: str) -> AsyncIterator[World]:
    async with (
        await simulated_control_plane(simulation) as kcp,
        await simulated_client(simulation, "skr") as skr,
        World(kcp, skr, tmp_path, namespace=namespace) as world,
    ):
        yield world
