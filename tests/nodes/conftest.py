"""Clusters with a real node each, where the machine can run one."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kyma_local.helm import find_helm
from kyma_local.nodes.requirements import missing
from tests.nodes.clusters import NodeClusters, open_clusters

RUN = "KLM_TEST_NODES"


def reason_to_skip() -> str | None:
    """Return why these tests cannot run here, or are not to."""
    if lacking := missing():
        return f"no nodes on this machine, which lacks: {', '.join(lacking)}"
    return None if os.environ.get(RUN) else "make test-nodes runs the tests on real nodes, which have to be built first"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("nodes"))
    if (reason := reason_to_skip()) is not None:
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have recorded."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if report.when == "call" and "/nodes/" in report.nodeid:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {name}: {value}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeClusters]:
    async with open_clusters(tmp_path_factory.mktemp("nodes"), find_helm()) as clusters:
        yield clusters
