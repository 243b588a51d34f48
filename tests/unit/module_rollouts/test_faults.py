"""A rollout comes to the same end whatever happens to its replica, and never lets more clusters go than it may.

The controller runs against a simulated KCP, and is killed after its writes, started on views of the past, kept from
seeing changes, and cancelled at its awaits. A second controller stands for those that install modules; before each
installation it reads from the API server how many are under way.
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

from kube_runtime import Causes, Controller, Manager, ObjectKey, Resource, Result
from kube_simulation.faults import Process, Users, Workload, check_under_faults
from lifecycle_manager import module_rollouts
from lifecycle_manager.contract.changes import generation_changed
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    ROLLOUT_STRATEGIES,
)
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_rollouts.controller import progress_changed
from lifecycle_manager.rollout import RolloutSettings
from lifecycle_manager_api import Manifest, as_document, crds, names
from tests import builders
from tests.observed_manager import ObservedManager
from tests.unit.module_rollouts.fleet import CHANNEL, MODULE, WAVE_LABEL, released, strategy

KCP = names.KCP_NAMESPACE
PLACES = 3
MAX_ATTEMPTS = 100  # where what they need was never seen, users have to go on
SECONDS = 0.1
CLUSTERS = {"a": "canary", "b": "canary", "c": "other", "d": "other", "e": "other"}
AT_A_TIME = {"canary": 1, "other": 2}
CAREFUL = strategy({"name": "canary", "soak": "0s", "maxConcurrent": "1"}, soak="0s", maxConcurrent="2")


async def process(violations: list[str], life: Process) -> None:
    """Run the controller of rollouts, and one that installs what they release."""
    manager = ObservedManager(life)
    offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
    module_rollouts.setup(manager, offers, RolloutSettings())
    install(manager, violations)
    await manager.run(asyncio.Event())


def install(manager: Manager, violations: list[str]) -> None:
    manifests = manager.informer(MANIFESTS)
    controller: Controller[ObjectKey, None] = manager.controller("installer")

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        violations.extend(await excess(manager))
        manifest = manifests.get(key)
        if manifest is None:
            return Result()
        release = manifest.status.release
        if release is not None and release.version != manifest.spec.version:
            patch: dict[str, Any] = {"spec": {"version": release.version}}
            manifests.wrote(await manager.client.merge_patch(MANIFESTS, key.name, patch, KCP))
        elif manifest.status.observed_generation != manifest.metadata.generation:
            status = {"state": "Ready", "observedGeneration": manifest.metadata.generation}
            written = await manager.client.merge_patch(
                MANIFESTS, key.name, {"status": status}, KCP, subresource="status"
            )
            manifests.wrote(written)
        return Result()

    controller.watches(manifests, when=lambda change: generation_changed(change) or progress_changed(change))
    controller.reconciles(reconcile)


async def excess(manager: Manager) -> list[str]:
    """Return what is wrong now: too many clusters under way, or one before its wave."""
    found = (await manager.client.list(MANIFESTS, KCP)).items
    waves: dict[str, list[Manifest]] = {"canary": [], "other": []}
    for each in found:
        waves[CLUSTERS[each.metadata.labels[names.KYMA_NAME]]].append(each)
    going = Counter({wave: sum(map(is_under_way, members)) for wave, members in waves.items()})
    wrong = [f"{count} of wave {wave} at a time" for wave, count in going.items() if count > AT_A_TIME[wave]]
    others = [each for each in waves["other"] if each.status.release and each.status.release.version == "2.0.0"]
    if others and not all(is_done(each) for each in waves["canary"]):
        wrong.append("the second wave before the first")
    return wrong


def is_under_way(manifest: Manifest) -> bool:
    release = manifest.status.release
    return release is not None and release.version == "2.0.0" and not is_done(manifest)


def is_done(manifest: Manifest) -> bool:
    is_observed = manifest.status.observed_generation == manifest.metadata.generation
    return manifest.spec.version == "2.0.0" and is_observed


async def roll_out(users: Users) -> None:
    """Have a fleet with a version, and its channel get the next one."""
    kcp = users.client
    await kcp.create(ROLLOUT_STRATEGIES, bare(CAREFUL), KCP, field_manager="user")
    await kcp.create(MODULE_RELEASE_METAS, bare(released("1.0.0")), KCP, field_manager="user")
    for name, wave in CLUSTERS.items():
        await kcp.create(KYMAS, bare(builders.kyma(name, labels={WAVE_LABEL: wave})), KCP, field_manager="user")
        manifest = bare(builders.manifest(MODULE, "1.0.0", kyma=name, channel=CHANNEL))
        await kcp.create(MANIFESTS, manifest, KCP, field_manager="user")
    await touch_all(users, "first")
    for _ in range(MAX_ATTEMPTS):  # not seconds: a machine that is paused has none
        if await is_completed(users, "1.0.0"):
            break
        await asyncio.sleep(0.1)
    await users.settled()
    await kcp.apply(MODULE_RELEASE_METAS, MODULE, bare(released("2.0.0")), KCP, field_manager="user")
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


async def is_completed(users: Users, version: str) -> bool:
    found = (await users.client.list(MODULE_ROLLOUTS, KCP)).items
    return any(
        each.spec.version == version
        and each.status.phase == "Completed"
        and each.status.clusters == each.status.updated == len(CLUSTERS)
        for each in found
    )


def bare(item: Any) -> dict[str, Any]:
    document = {key: value for key, value in as_document(item).items() if key != "status"}
    metadata = {key: value for key, value in document["metadata"].items() if key in {"name", "labels", "annotations"}}
    return {**document, "metadata": {**metadata, "namespace": KCP}}


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
