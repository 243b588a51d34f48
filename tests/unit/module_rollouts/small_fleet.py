"""A small fleet in a simulated KCP: its waves, who installs what a rollout releases, and what must never be seen."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kube_runtime import Client, Controller, Manager, ObjectKey, Result
from lifecycle_manager.contract.changes import generation_changed
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_ROLLOUTS,
    ROLLOUT_STRATEGIES,
)
from lifecycle_manager.module_rollouts.controller import progress_changed
from lifecycle_manager_api import Manifest, as_document, names
from tests import builders
from tests.unit.module_rollouts.fleet import CHANNEL, MODULE, WAVE_LABEL, released, strategy

KCP = names.KCP_NAMESPACE
FIRST, SECOND = "1.0.0", "2.0.0"
CLUSTERS = {"a": "canary", "b": "canary", "c": "other", "d": "other", "e": "other"}
AT_A_TIME = {"canary": 1, "other": 2}
CAREFUL = strategy({"name": "canary", "soak": "0s", "maxConcurrent": "1"}, soak="0s", maxConcurrent="2")


async def create_fleet(kcp: Client) -> None:
    """Create clusters with the first version, and the release of it by a strategy."""
    await kcp.create(ROLLOUT_STRATEGIES, bare(CAREFUL), KCP, field_manager="user")
    await kcp.create(MODULE_RELEASE_METAS, bare(released(FIRST)), KCP, field_manager="user")
    for name, wave in CLUSTERS.items():
        await kcp.create(KYMAS, bare(builders.kyma(name, labels={WAVE_LABEL: wave})), KCP, field_manager="user")
        manifest = bare(builders.manifest(MODULE, FIRST, kyma=name, channel=CHANNEL))
        await kcp.create(MANIFESTS, manifest, KCP, field_manager="user")


async def is_completed(kcp: Client, version: str) -> bool:
    """Tell whether a version was rolled out to all clusters."""
    found = (await kcp.list(MODULE_ROLLOUTS, KCP)).items
    return any(
        each.spec.version == version
        and each.status.phase == "Completed"
        and each.status.clusters == each.status.updated == len(CLUSTERS)
        for each in found
    )


class Installer:
    """Installs what a rollout releases, as the controllers of Kymas and Manifests do."""

    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.manifests = manager.informer(MANIFESTS)
        controller: Controller[ObjectKey, None] = manager.controller("installer")
        controller.watches(self.manifests, when=lambda change: generation_changed(change) or progress_changed(change))
        controller.reconciles(self.reconcile)

    async def reconcile(self, key: ObjectKey, *_: Any) -> Result:
        manifest = self.manifests.get(key)
        if manifest is None:
            return Result()
        release = manifest.status.release
        if release is not None and release.version != manifest.spec.version:
            patch: dict[str, Any] = {"spec": {"version": release.version}}
            self.manifests.wrote(await self.client.merge_patch(MANIFESTS, key.name, patch, KCP))
        elif manifest.status.observed_generation != manifest.metadata.generation:
            status = {"state": "Ready", "observedGeneration": manifest.metadata.generation}
            written = await self.client.merge_patch(MANIFESTS, key.name, {"status": status}, KCP, subresource="status")
            self.manifests.wrote(written)
        return Result()


def excess_in(manifests: Iterable[Manifest]) -> list[str]:
    """Return what is wrong: too many clusters under way, or one before its wave."""
    waves: dict[str, list[Manifest]] = {"canary": [], "other": []}
    for each in manifests:
        waves[CLUSTERS[each.metadata.labels[names.KYMA_NAME]]].append(each)
    going = Counter({wave: sum(map(is_under_way, members)) for wave, members in waves.items()})
    wrong = [f"{count} of wave {wave} at a time" for wave, count in going.items() if count > AT_A_TIME[wave]]
    if any(map(is_released, waves["other"])) and not all(map(is_done, waves["canary"])):
        wrong.append("the second wave before the first")
    return wrong


def is_released(manifest: Manifest) -> bool:
    """Tell whether the second version was released to a cluster."""
    release = manifest.status.release
    return release is not None and release.version == SECOND


def is_under_way(manifest: Manifest) -> bool:
    """Tell whether a cluster is getting the second version."""
    return is_released(manifest) and not is_done(manifest)


def is_done(manifest: Manifest) -> bool:
    """Tell whether a cluster has the second version, and is Ready with it."""
    is_observed = manifest.status.observed_generation == manifest.metadata.generation
    return manifest.spec.version == SECOND and is_observed


def bare(item: Any) -> dict[str, Any]:
    """Return an object as users write it."""
    document = {key: value for key, value in as_document(item).items() if key != "status"}
    metadata = {key: value for key, value in document["metadata"].items() if key in {"name", "labels", "annotations"}}
    return {**document, "metadata": {**metadata, "namespace": KCP}}
