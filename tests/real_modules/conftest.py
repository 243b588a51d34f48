"""Two clusters, which the tests of this folder share, so all of them run in one worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kyma_local.pytest_plugin import running_api_server

HERE = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one event loop and one worker."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("real-modules"))
    item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="package")
def ours() -> Iterator[Path]:
    """The kubeconfig of the cluster that the product installs modules in."""
    with running_api_server() as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="package")
def theirs() -> Iterator[Path]:
    """The kubeconfig of the cluster that kubectl applies to. It is always a new one."""
    with pytest.MonkeyPatch.context() as variables:
        variables.delenv("KUBE_RUNTIME_KUBECONFIG", raising=False)
        with running_api_server() as kubeconfig:
            yield kubeconfig
