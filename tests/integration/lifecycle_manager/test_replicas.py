"""Two replicas of the Lifecycle Manager share the fleet: whoever hears of a change, and whoever is killed."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from kube_runtime.leases import rendezvous
from kube_runtime.leases.lease import LEASES
from kyma_demo import processes
from kyma_demo.story import Story
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.watching import lines_of
from tests.waiting import eventually

GROUP = "kube-runtime/group=lifecycle-manager"
FIRST, SECOND = "lifecycle-manager", "second-replica"


async def owner_of(story: Story, kyma: str) -> str:
    """Return the name of the replica that looks after a Kyma, once all agree."""
    found: list[str] = []

    async def agreed() -> bool:
        leases = (await story.stage.kcp.list(LEASES, names.KCP_LEASE_NAMESPACE, label_selector=GROUP)).items
        views = {lease.metadata.annotations["kube-runtime/view"] for lease in leases}
        members = {lease.spec.holder_identity for lease in leases}
        found[:] = [(rendezvous(kyma, members) or "").rpartition("-")[0]]
        return views == {" ".join(sorted(members))}

    await eventually(agreed, what="the replicas agree who is there")
    return found[0]


def events_taken(story: Story, replica: str) -> int:
    """Count the events that a replica has put into its own queues."""
    return len(lines_of(story.stage.logs / f"{replica}.log", "event taken"))


@asynccontextmanager
async def second_replica(story: Story) -> AsyncGenerator[ChildProcess, None]:
    """Run another replica beside the one that all the Watcher's events go to."""
    program = processes.lifecycle_manager(
        story.cast.manager_kubeconfig, free_port(), by_interval=False, admission_port=free_port(), name=SECOND
    )
    (story.stage.logs / f"{SECOND}.log").unlink(missing_ok=True)
    process = await processes.start(program, story.stage.logs)
    try:
        yield process
    finally:
        await process.stop()


@asynccontextmanager
async def second_replica_that_owns(story: Story, kyma: str) -> AsyncGenerator[ChildProcess, None]:
    """Run another replica whose lot it is to look after a Kyma; both draw anew until it is."""
    for _ in range(20):
        async with AsyncExitStack() as stack:
            process = await stack.enter_async_context(second_replica(story))
            await eventually(lambda: '"msg":"ready"' in (story.stage.logs / f"{SECOND}.log").read_text())

            async def both() -> bool:
                leases = await story.stage.kcp.list(LEASES, names.KCP_LEASE_NAMESPACE, label_selector=GROUP)
                return len(leases.items) == 2

            await eventually(both)
            if await owner_of(story, kyma) == SECOND:
                yield process
                return
        await story.cast.kill(FIRST)
        await story.cast.restart(FIRST)
    raise AssertionError("twenty replicas in a row drew less than the first")


async def test_event_that_reaches_one_replica_is_handed_to_the_one_whose_kyma_it_is(story: Story) -> None:
    await story.change_volume("500Gi")
    async with second_replica_that_owns(story, "demo"):
        before = events_taken(story, FIRST), events_taken(story, SECOND)
        for number in range(501, 506):
            await story.change_volume(f"{number}Gi")
        after = events_taken(story, FIRST), events_taken(story, SECOND)
        assert after[0] == before[0]
        assert after[1] > before[1]
    await story.change_volume("510Gi")  # it has left, and the other took over at once


async def test_no_change_is_lost_when_the_replica_that_looks_after_its_kyma_is_killed(story: Story) -> None:
    async with second_replica_that_owns(story, "demo") as process:
        await story.change_volume("520Gi")
        await story.patch_volume("521Gi")
        await process.kill()
        await story.patch_volume("522Gi")
        await story.sees_volume("522Gi")
        assert await owner_of(story, "demo") == FIRST
        assert events_taken(story, FIRST) > 0


@pytest.mark.parametrize("times", [1, 2])
async def test_replica_that_starts_anew_under_its_name_takes_its_kymas_back_at_once(story: Story, times: int) -> None:
    for number in range(times):
        await story.cast.kill(FIRST)
        await story.cast.restart(FIRST)
        await story.change_volume(f"{530 + number}Gi")
    assert await owner_of(story, "demo") == FIRST
