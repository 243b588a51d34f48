"""One module on a real API server, with a control plane that is simulated."""

from collections.abc import AsyncIterator

import pytest

from kube_runtime import Client
from kube_simulation import serve_simulation
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from tests.clusters import simulated_control_plane
from tests.manifest_clusters import Modules

SKR = names.SKR_NAMESPACE


@pytest.fixture
async def skr(client: Client) -> Client:
    """A real API server with the namespace of the modules."""
    await apply_objects(client, f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {SKR}}}")
    return client


@pytest.fixture
async def world(skr: Client) -> AsyncIterator[Modules]:
    """A simulated control plane, and a real API server for the module."""
    async with (
        serve_simulation() as simulation,
        await simulated_control_plane(simulation) as kcp,
        Modules(kcp, skr) as world,
    ):
        yield world
