"""The brake on changes: which of them go in waves although no RolloutStrategy is named. Pure functions.

A change of the catalog that gives more clusters another version, or other objects in the same version, than
`--max-changed-clusters` allows is a rollout, with the waves of the RolloutStrategy `default`, or DEFAULT_WAVES where
there is none. The rule depends on KCP alone, so that every replica finds the same as soon as it sees the change. A
rollout that began goes on to its end.
"""

from collections.abc import Collection, Iterable, Mapping

from kube_runtime.informer import Index
from lifecycle_manager.module_catalog import is_mandatory_manifest, module_of_manifest
from lifecycle_manager.rollout.target import RolloutTarget, channel_of
from lifecycle_manager_api import (
    InvalidVersion,
    LabelSelector,
    LabelSelectorRequirement,
    Manifest,
    RolloutStrategySpec,
    Version,
    Wave,
    names,
)

DEFAULT_STRATEGY = "default"
DEFAULT_WAVES = RolloutStrategySpec(
    waves=(
        Wave(
            name="trial",
            kyma_selector=LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement(key=names.BROKER_PLAN_NAME, operator="In", values=("trial", "free")),
                )
            ),
        ),
    )
)
FREE_CLUSTERS = 10
"""So many clusters change at once in any fleet, unless the option is a number."""


def _module_of_channel(manifest: Manifest) -> Iterable[str]:
    if channel_of(manifest):
        yield module_of_manifest(manifest)


MANIFESTS_BY_MODULE: Index[Manifest] = Index("module", _module_of_channel)
"""Manifests about which rollouts may decide, by the module."""


def max_changed(amount: str, clusters: int) -> int:
    """Return how many of so many clusters one change may concern; a share below FREE_CLUSTERS is that."""
    if not amount.endswith("%"):
        return int(amount)
    return max(FREE_CLUSTERS, clusters * int(amount[:-1]) // 100)


def changes(manifest: Manifest, target: RolloutTarget, known: Collection[str]) -> bool:
    """Tell whether what a channel gives changes a cluster, or a rollout does that is not `known` yet."""
    metadata, release = manifest.metadata, manifest.status.release
    if metadata.being_deleted or names.IS_UNMANAGED in metadata.annotations:
        return False
    if manifest.spec.version == target.version:
        is_under_way = release is not None and release.version == target.version and release.rollout not in known
        return is_under_way or not target.is_in(manifest)
    try:
        is_lower = Version.parse(target.version) < Version.parse(manifest.spec.version)
        return not is_lower or is_mandatory_manifest(manifest)  # what users chose gets no lower version
    except InvalidVersion:
        return True


def changed_clusters(
    targets: Mapping[str, RolloutTarget], manifests: Iterable[Manifest], known: Collection[str]
) -> int:
    """Return how many clusters the channels of a module change. `manifests`: those of the module."""
    found = ((each, targets.get(channel_of(each))) for each in manifests)
    return sum(target is not None and changes(manifest, target, known) for manifest, target in found)
