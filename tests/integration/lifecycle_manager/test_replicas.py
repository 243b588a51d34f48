"""Two replicas of the Lifecycle Manager share the fleet; events reach the right one, and no change is lost."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

from kube_runtime.leases.lease import LEASES
from kube_runtime.leases.rendezvous import rendezvous
from kyma_demo import processes
from kyma_demo.walkthrough import Walkthrough
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.event_path import lines_of
from tests.waiting import eventually

GROUP = "kube-runtime/group=lifecycle-manager"
FIRST, SECOND = "lifecycle-manager", "second-replica"


async def owner_of(walkthrough: Walkthrough, kyma: str) -> str:
    """Return the name of the replica whose shard has a Kyma, once all replicas agree."""
    found: list[str] = []

    async def agreed() -> bool:
        leases = (await walkthrough.environment.kcp.list(LEASES, names.KCP_LEASE_NAMESPACE, label_selector=GROUP)).items
        views = {lease.metadata.annotations["kube-runtime/view"] for lease in leases}
        members = {lease.spec.holder_identity for lease in leases}
        found[:] = [(rendezvous(kyma, tuple(members)) or "").rpartition("-")[0]]
        return views == {" ".join(sorted(members))}

    await eventually(agreed, what="all replicas have the same view")
    return found[0]


def events_taken(walkthrough: Walkthrough, replica: str) -> int:
    """Count the events that a replica has added to its own queues."""
    return len(lines_of(walkthrough.environment.logs / f"{replica}.log", "event taken"))


def shards(walkthrough: Walkthrough) -> list[int]:
    """Count for each replica how often its shard changed."""
    logs = walkthrough.environment.logs
    return [(logs / f"{replica}.log").read_text().count("owners gained") for replica in (FIRST, SECOND)]


@asynccontextmanager
async def second_replica(walkthrough: Walkthrough) -> AsyncGenerator[ChildProcess, None]:
    """Run another replica; the Watcher's events go to the first one."""
    program = processes.lifecycle_manager(
        walkthrough.programs.manager_kubeconfig, free_port(), by_interval=False, admission_port=free_port(), name=SECOND
    )
    (walkthrough.environment.logs / f"{SECOND}.log").unlink(missing_ok=True)
    process = await processes.start(program, walkthrough.environment.logs)
    try:
        yield process
    finally:
        await process.stop()


@asynccontextmanager
async def second_replica_that_owns(walkthrough: Walkthrough, kyma: str) -> AsyncGenerator[ChildProcess, None]:
    """Run another replica whose shard has a Kyma; both are started again until it has."""
    for _ in range(20):
        async with AsyncExitStack() as stack:
            process = await stack.enter_async_context(second_replica(walkthrough))
            await eventually(lambda: '"msg":"ready"' in (walkthrough.environment.logs / f"{SECOND}.log").read_text())

            async def both() -> bool:
                leases = await walkthrough.environment.kcp.list(LEASES, names.KCP_LEASE_NAMESPACE, label_selector=GROUP)
                return len(leases.items) == 2

            await eventually(both)
            if await owner_of(walkthrough, kyma) == SECOND:
                yield process
                return
        await walkthrough.programs.kill(FIRST)
        await walkthrough.programs.restart(FIRST)
    raise AssertionError("the first replica kept the Kyma in 20 attempts")


async def test_event_is_forwarded_to_the_replica_of_its_kyma(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("500Gi")
    volumes = count(501)

    async def second_takes_all() -> bool:
        """A replica that is not scheduled for the duration of its Lease loses its shard, and may join with another."""
        async with second_replica_that_owns(walkthrough, "demo"):
            before = events_taken(walkthrough, FIRST), events_taken(walkthrough, SECOND), shards(walkthrough)
            for _ in range(5):
                await walkthrough.change_volume(f"{next(volumes)}Gi")
            after = events_taken(walkthrough, FIRST), events_taken(walkthrough, SECOND), shards(walkthrough)
        if after[2] != before[2]:
            return False
        assert after[0] == before[0]
        assert after[1] > before[1]
        return True

    await eventually(second_takes_all, within=120, what="five changes without a change of the shards")
    await walkthrough.change_volume("510Gi")  # the second replica has stopped, and the first took over at once


async def test_no_change_is_lost_when_the_replica_of_its_kyma_is_killed(walkthrough: Walkthrough) -> None:
    async with second_replica_that_owns(walkthrough, "demo") as process:
        await walkthrough.change_volume("520Gi")
        await walkthrough.patch_volume("521Gi")
        await process.kill()
        await walkthrough.patch_volume("522Gi")
        await walkthrough.wait_for_volume("522Gi")
        assert await owner_of(walkthrough, "demo") == FIRST
        assert events_taken(walkthrough, FIRST) > 0


async def test_restarted_replica_with_the_same_name_gets_its_kymas_back_at_once(walkthrough: Walkthrough) -> None:
    for number in range(2):
        await walkthrough.programs.kill(FIRST)
        await walkthrough.programs.restart(FIRST)
        await walkthrough.change_volume(f"{530 + number}Gi")
        assert await owner_of(walkthrough, "demo") == FIRST
