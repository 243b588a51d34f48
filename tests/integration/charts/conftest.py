"""The real helm, which the tests build for themselves once, and clusters in which Deployments become processes."""

from pathlib import Path

import pytest

from local.helm import find_helm
from tests.integration.charts.helm import Helm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("charts"))


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(find_helm(), tmp_path_factory.mktemp("helm"))
