"""The whole product on real API servers, as in the demo: each program is a process with its own identity."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Applier, InventoryEntry
from kyma_demo.environment import Environment, open_environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.process.crd_installation import apply_objects
from tests.integration.lifecycle_manager.event_path import is_watcher_ready
from tests.integration.lifecycle_manager.file_server import write_ca
from tests.integration.lifecycle_manager.programs import Manager, MeasuredPrograms, start_manager
from tests.modules import ANY_MODULE
from tests.registries import BlobServer, blob_server
from tests.waiting import eventually

FAULTS = {
    "test_admission",
    "test_cert_manager",
    "test_event_path",
    "test_outages",
    "test_silent_clusters",
    "test_slow_writes",
    "test_traces",
    "test_watcher_replicas",
    "test_watcher_resources",
}
"""Most of them wait for alarms: about half of the time, in which another worker runs the other half."""
LONG_INTERVALS = ("--kyma-requeue-success-interval=10m", "--manifest-requeue-success-interval=10m")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one event loop, and each half in one worker: they share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("faults" if item.path.stem in FAULTS else "lifecycle_manager"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that need long intervals last: the Lifecycle Manager is started once for all of them.

    The deletion of the Kyma that all have in common follows them.
    """
    here = [number for number, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    for number, item in zip(here, sorted((items[number] for number in here), key=_turn), strict=True):
        items[number] = item


def _turn(item: pytest.Item) -> int:
    if item.path.stem == "test_kyma_deletion":
        return 2
    return int(isinstance(item, pytest.Function) and "on_events_only" in item.fixturenames)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def walkthrough(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Walkthrough]:
    """All programs run, and the module is enabled in the SKR.

    Timeouts for missing events are longer than ten seconds, because a busy machine may pause for half of that. For the
    same reason the API server may allow a change without calling the Watcher; Kymas and Module CRs are reconciled every
    30 s, so that it is found. Whether a change was reported is read from logs (`event_path.changes_are_reported`), not
    derived from its duration.
    """
    folder = tmp_path_factory.mktemp("environment")
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("KLM_MANIFEST_REQUEUE_SUCCESS_INTERVAL", "2s")  # for tests of drift
        variables.setenv("KLM_MANIFEST_REQUEUE_BUSY_INTERVAL", "0.2s")
        variables.setenv("SSL_CERT_FILE", str(write_ca(folder)))
        variables.setenv("KLM_WATCHER_SILENCE", "12s")
        variables.setenv("KLM_WATCHER_CANARY_INTERVAL", "2s")
        variables.setenv("KLM_WATCHER_CANARY_TIMEOUT", "10s")
        variables.setenv("KLM_MODULE_UPGRADE_ROLLOUT_MAX_DELAY", "0s")
        variables.setenv("KLM_SKR_UNREACHABLE_GRACE", "1s")
        variables.setenv("KLM_SELF_SIGNED_CA_ROTATION_GRACE", "3s")
        variables.setenv("KLM_LEADER_ELECTION_LEASE_DURATION", "15s")
        variables.setenv("KLM_KYMA_REQUEUE_SUCCESS_INTERVAL", "30s")
        variables.setenv("HEARTBEAT_SECONDS", "0.5")
        async with _set_up(folder) as walkthrough:
            yield walkthrough


@asynccontextmanager
async def _set_up(folder: Path) -> AsyncGenerator[Walkthrough, None]:
    async with open_environment(folder, None, None) as environment, AsyncExitStack() as stack:
        walkthrough = Walkthrough(environment, MeasuredPrograms(environment, stack))
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(walkthrough.object_watcher.run())
            await walkthrough.set_up(timeout_seconds=180)
            await walkthrough.object_watcher.ready(60)
            yield walkthrough
            watching.cancel()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def layers(walkthrough: Walkthrough) -> AsyncIterator[BlobServer]:
    """A registry for layers of modules; meanwhile the Lifecycle Manager may install any module in the SKR."""
    await apply_objects(walkthrough.environment.skr, ANY_MODULE)
    async with blob_server() as server:
        yield server
    await Applier(walkthrough.environment.skr, field_manager="test").delete(
        [
            InventoryEntry("rbac.authorization.k8s.io", "v1", kind, "", "lifecycle-manager-modules")
            for kind in ("ClusterRole", "ClusterRoleBinding")
        ]
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def manager(walkthrough: Walkthrough) -> Manager:
    """The Lifecycle Manager with readable metrics, once events arrive."""
    await eventually(lambda: is_watcher_ready(walkthrough.environment))
    assert isinstance(walkthrough.programs, MeasuredPrograms)
    return walkthrough.programs.manager


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def on_events_only(walkthrough: Walkthrough) -> Manager:
    """The Lifecycle Manager until all tests are over; its intervals are longer than a test waits."""
    manager = await start_manager(walkthrough.programs, *LONG_INTERVALS)
    await eventually(lambda: is_watcher_ready(walkthrough.environment))
    return manager


@pytest.fixture
def environment(walkthrough: Walkthrough) -> Environment:
    """The clusters with clients of their administrators."""
    return walkthrough.environment
