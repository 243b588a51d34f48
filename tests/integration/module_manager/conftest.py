"""The fixtures of the SDK's test kit."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kube_runtime import Client
from kyma_module_manager.testing.plugin import ControlPlane, control_plane, managed
from tests.go_programs import build

__all__ = ["control_plane", "go_build", "managed"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run the tests with a control plane in one worker, so that it is started once."""
    if isinstance(item, pytest.Function) and "control_plane" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("module_manager"))


@pytest.fixture
async def own(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.from_kubeconfig(control_plane.manager_kubeconfig) as client:
        yield client


@pytest.fixture(scope="session")
def go_build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    folder = tmp_path_factory.mktemp("go")
    return lambda source: build(source, folder / source.name)
