"""A real API server with the CRDs of the API package."""

import pytest

from kube_runtime import Client


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one worker: CRDs belong to the whole cluster."""
    item.add_marker(pytest.mark.xdist_group("api"))


@pytest.fixture
def served(client: Client, installed_crds: None) -> Client:
    """A client to the API server, which serves every kind."""
    return client
