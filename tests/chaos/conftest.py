"""Servers that tests may end."""

from collections.abc import Iterator

import pytest

from tests.chaos.servers import Servers


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run the tests that need these servers in one worker, which starts them once."""
    if isinstance(item, pytest.Function) and "servers" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("servers that end"))


@pytest.fixture(scope="package")
def servers() -> Iterator[Servers]:
    """One etcd and one API server."""
    with Servers.start() as running:
        yield running
