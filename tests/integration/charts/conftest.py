"""The real helm, which the tests build once, and clusters in which Deployments run as processes."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kyma_local.helm import find_helm
from tests.integration.charts.clusters import HelmClusters, open_world
from tests.integration.charts.helm import Helm


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("charts"))


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(find_helm(), tmp_path_factory.mktemp("helm"))


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def world(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HelmClusters]:
    """Clusters with Lifecycle Manager and a Module Manager, installed by Helm; the user has enabled the module."""
    async with open_world(tmp_path_factory.mktemp("world"), helm) as world:
        await world.install_lifecycle_manager()
        await world.offer_the_module()
        await world.install_module_manager()
        await world.manage_the_user_cluster()
        yield world
