"""The whole product on real API servers, as the demo stages it: each program a process with its own identity."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from local.demo.cast import Cast
from local.demo.report import Silence
from local.demo.stage import Stage, open_stage
from local.demo.story import Story


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("lifecycle_manager"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    """A stage on which everything runs and the module is enabled in the SKR."""
    folder = tmp_path_factory.mktemp("stage")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KLM_SYNC_RESOURCE_REQUEUE_SUCCESS_INTERVAL", "3s")  # or drift would take half a minute
        environment.setenv("KLM_WATCHER_SILENCE", "4s")
        environment.setenv("KLM_WATCHER_CANARY_INTERVAL", "2s")
        environment.setenv("KLM_WATCHER_CANARY_PATIENCE", "3s")
        environment.setenv("KLM_MODULE_UPGRADE_ROLLOUT_MAX_DELAY", "0s")
        environment.setenv("KLM_SKR_UNREACHABLE_GRACE", "1s")
        environment.setenv("KLM_SKR_REQUEST_TIMEOUT", "5s")
        environment.setenv("HEARTBEAT_SECONDS", "0.5")
        async with _set_up(folder) as story:
            yield story


@asynccontextmanager
async def _set_up(folder: Path) -> AsyncGenerator[Story, None]:
    async with open_stage(folder, None, None) as stage, AsyncExitStack() as stack:
        story = Story(stage, Cast(stage, stack), Silence())
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(story.witness.run())
            await story.set_up()
            await story.witness.ready(10)
            yield story
            watching.cancel()


@pytest.fixture
def stage(story: Story) -> Stage:
    """The clusters with their administrators' clients."""
    return story.stage
