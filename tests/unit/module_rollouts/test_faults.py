"""A rollout comes to the same end whatever happens to its replica, and never lets more clusters go than it may.

The controller runs against a simulated KCP, and is killed after its writes, started on views of the past, kept from
seeing changes, and cancelled at its awaits. A second controller stands for those that install modules; before each
installation it reads from the API server how many are under way.
"""

import asyncio
from functools import partial
from typing import Any

from kube_runtime import Manager, ObjectKey, Resource, Result
from lifecycle_manager import module_rollouts
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    ROLLOUT_STRATEGIES,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager_api import crds
from tests.faults import Process, Users, Workload, check_under_faults
from tests.observed_manager import ObservedManager
from tests.unit.module_rollouts.fleet import MODULE, released
from tests.unit.module_rollouts.small_fleet import (
    FIRST,
    KCP,
    SECOND,
    Installer,
    bare,
    create_fleet,
    excess_in,
    is_completed,
)

PLACES = 3
MAX_ATTEMPTS = 100  # where what they need was never seen, users have to go on
SECONDS = 0.1


async def process(violations: list[str], life: Process) -> None:
    """Run the controller of rollouts, and one that installs what they release."""
    manager = ObservedManager(life)
    offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
    module_rollouts.setup(manager, offers, RolloutSettings())
    CheckingInstaller(manager, violations)
    await manager.run(asyncio.Event())


class CheckingInstaller(Installer):
    """Reads from the API server what is wrong before it installs anything."""

    def __init__(self, manager: Manager, violations: list[str]) -> None:
        super().__init__(manager)
        self.violations = violations

    async def reconcile(self, key: ObjectKey, *causes: Any) -> Result:
        self.violations.extend(excess_in((await self.client.list(MANIFESTS, KCP)).items))
        return await super().reconcile(key, *causes)


async def roll_out(users: Users) -> None:
    """Have a fleet with a version, and its channel get the next one."""
    kcp = users.client
    await create_fleet(kcp)
    await touch_all(users, "first")
    for _ in range(MAX_ATTEMPTS):  # not seconds: a machine that is paused has none
        if await is_completed(kcp, FIRST):
            break
        await asyncio.sleep(0.1)
    await users.settled()
    await kcp.apply(MODULE_RELEASE_METAS, MODULE, bare(released(SECOND)), KCP, field_manager="user")
    await users.settled()
    await touch_all(users, "second")
    await users.settled()


async def touch_all(users: Users, mark: str) -> None:
    """Write each object once more: a change that was hidden is seen with the next one."""
    resources: tuple[Resource[Any], ...] = (ROLLOUT_STRATEGIES, MODULE_RELEASE_METAS, KYMAS, MANIFESTS)
    for resource in resources:
        for each in (await users.client.list(resource, KCP)).items:
            patch = {"metadata": {"annotations": {"touched": mark}}}
            await users.client.merge_patch(resource, each.metadata.name, patch, KCP)


async def test_rollout_comes_to_the_same_end_whatever_happens() -> None:
    violations: list[str] = []
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KCP}}
    workload = Workload(
        process=partial(process, violations),
        script=roll_out,
        clusters=("kcp",),
        initial=(namespace, *crds.all_crds()),
        ignored=frozenset({"observedGeneration", "at", "since", "startedAt", "settledAt", "completedAt"}),
        resync_seconds=SECONDS,
    )
    report = await check_under_faults(workload, max_places=PLACES, timeout_seconds=90)
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["StartStale"] == PLACES
    assert violations == []
