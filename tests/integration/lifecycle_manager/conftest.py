"""The whole product on real API servers, as in the demo: each program is a process with its own identity."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.resources import files
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Applier, InventoryEntry
from kyma_demo.cast import Cast
from kyma_demo.report import Silence
from kyma_demo.stage import Stage, open_stage
from kyma_demo.story import Story
from lifecycle_manager.crd_installation import apply_objects
from tests.integration.lifecycle_manager.event_path import is_watcher_ready
from tests.integration.lifecycle_manager.file_server import write_ca
from tests.integration.lifecycle_manager.programs import Manager, manager_with
from tests.registries import BlobServer, blob_server
from tests.waiting import eventually


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("lifecycle_manager"))


# The administrator of a cluster decides which objects modules may contain; here all are allowed.
ANY_MODULE = f"""{files("lifecycle_manager.rbac").joinpath("skr-modules.yaml").read_text()}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: lifecycle-manager-modules}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lifecycle-manager-modules}}
subjects: [{{kind: ServiceAccount, name: lifecycle-manager, namespace: kube-system}}]
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    """All programs run, and the module is enabled in the SKR.

    Timeouts for missing events are longer than ten seconds, because a busy machine may pause for half of that. For the
    same reason the API server may allow a change without calling the Watcher; Kymas and Module CRs are reconciled every
    30 s, so that it is found. Whether a change was reported is read from logs (`event_path.changes_are_reported`), not
    derived from its duration.
    """
    folder = tmp_path_factory.mktemp("stage")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KLM_SYNC_RESOURCE_REQUEUE_SUCCESS_INTERVAL", "3s")  # for tests of drift
        environment.setenv("KLM_MANIFEST_REQUEUE_SUCCESS_INTERVAL", "10s")
        environment.setenv("KLM_MANIFEST_REQUEUE_BUSY_INTERVAL", "0.2s")
        environment.setenv("SSL_CERT_FILE", str(write_ca(folder)))
        environment.setenv("KLM_WATCHER_SILENCE", "12s")
        environment.setenv("KLM_WATCHER_REQUEUE_SUCCESS_INTERVAL", "10s")
        environment.setenv("KLM_WATCHER_CANARY_INTERVAL", "2s")
        environment.setenv("KLM_WATCHER_CANARY_PATIENCE", "10s")
        environment.setenv("KLM_MODULE_UPGRADE_ROLLOUT_MAX_DELAY", "0s")
        environment.setenv("KLM_SKR_UNREACHABLE_GRACE", "1s")
        environment.setenv("KLM_SELF_SIGNED_CA_ROTATION_GRACE", "3s")
        environment.setenv("KLM_LEADER_ELECTION_LEASE_DURATION", "15s")
        environment.setenv("KLM_LEADER_ELECTION_RENEW_DEADLINE", "12s")
        environment.setenv("KLM_LEADER_ELECTION_RETRY_PERIOD", "0.4s")
        environment.setenv("KLM_KYMA_REQUEUE_SUCCESS_INTERVAL", "30s")
        environment.setenv("KLM_MODULE_CONFIG_REQUEUE_SUCCESS_INTERVAL", "30s")
        environment.setenv("HEARTBEAT_SECONDS", "0.5")
        async with _set_up(folder) as story:
            yield story


@asynccontextmanager
async def _set_up(folder: Path) -> AsyncGenerator[Story, None]:
    async with open_stage(folder, None, None) as stage, AsyncExitStack() as stack:
        story = Story(stage, Cast(stage, stack), Silence())
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(story.witness.run())
            await story.set_up(patience_seconds=180)
            await story.witness.ready(60)
            yield story
            watching.cancel()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def layers(story: Story) -> AsyncIterator[BlobServer]:
    """A registry for layers of modules; meanwhile the Lifecycle Manager may install any module in the SKR."""
    await apply_objects(story.stage.skr, ANY_MODULE)
    async with blob_server() as server:
        yield server
    await Applier(story.stage.skr, field_manager="test").delete(
        [
            InventoryEntry("rbac.authorization.k8s.io", "v1", kind, "", "lifecycle-manager-modules")
            for kind in ("ClusterRole", "ClusterRoleBinding")
        ]
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def manager(story: Story) -> AsyncIterator[Manager]:
    """The Lifecycle Manager with readable metrics, once events arrive."""
    async with manager_with(story.cast) as manager:
        await eventually(lambda: is_watcher_ready(story.stage))
        yield manager


@pytest.fixture
def stage(story: Story) -> Stage:
    """The clusters with clients of their administrators."""
    return story.stage
